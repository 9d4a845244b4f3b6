import { cacheCompiledCode } from "#config/compile-cache.ts";

cacheCompiledCode();
const { golem } = await import("./golem/golem-command.ts");

// npm starts its scripts in the folder of the package; the person stands elsewhere.
const cwd = (process.env.npm_lifecycle_event === "golem" && process.env.INIT_CWD) || process.cwd();

// Nobody reads any more, as in golem … | head: what was done is kept, and no more is spent.
for (const stream of [process.stdout, process.stderr]) {
  stream.on("error", (error: NodeJS.ErrnoException) => {
    if (error.code !== "EPIPE") throw error;
    process.exit(141);
  });
}
// Some of what is waited for keeps no process awake by itself.
const awake = setInterval(() => {}, 60_000);
const code = await golem(process.argv.slice(2), {
  cwd,
  env: process.env,
  input: process.stdin,
  output: process.stdout,
  errors: process.stderr,
  leave: (code) => process.exit(code),
});
clearInterval(awake);
// What is still on its way to a pipe is written first.
for (const stream of [process.stdout, process.stderr])
  await new Promise<void>((done) => stream.write("", () => done()));
process.exit(code);
