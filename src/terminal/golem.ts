import { cacheCompiledCode } from "#config/compile-cache.ts";

cacheCompiledCode();
void run();

async function run(): Promise<void> {
  const { golem } = await import("./golem/golem-command.ts");

  // npm runs scripts in the package's folder; INIT_CWD is the folder in which the person typed the command.
  const cwd = (process.env.npm_lifecycle_event === "golem" && process.env.INIT_CWD) || currentFolder();

  // The reader closed the pipe, as in `golem … | head`: keep the results so far, and stop spending.
  for (const stream of [process.stdout, process.stderr]) {
    stream.on("error", (error: NodeJS.ErrnoException) => {
      if (error.code !== "EPIPE") throw error;
      process.exit(141);
    });
  }
  // Some pending promises do not keep the process alive by themselves.
  const keepAlive = setInterval(() => {}, 60_000);
  const code = await golem(process.argv.slice(2), {
    cwd,
    env: process.env,
    input: process.stdin,
    output: process.stdout,
    errors: process.stderr,
    leave: (code) => process.exit(code),
  });
  clearInterval(keepAlive);
  // Flush output that is still buffered for a pipe.
  for (const stream of [process.stdout, process.stderr])
    await new Promise<void>((done) => stream.write("", () => done()));
  process.exit(code);
}

function currentFolder(): string {
  try {
    return process.cwd();
  } catch {
    process.stderr.write("golem: The current folder was deleted. Change to another one and try again.\n");
    return process.exit(2);
  }
}
