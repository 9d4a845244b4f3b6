import { UserError } from "#domain/errors.ts";
import { chooseModel, type DemoOptions, demoUsage, parseDemoOptions } from "#playground/demo/demo-options.ts";
import { playStory } from "#playground/demo/play-story.ts";
import { type Playground, startPlayground } from "#playground/demo/start-playground.ts";

const defaultPort = 4000;

/** Runs the demo until it ends or is interrupted, and returns the exit code. */
async function runDemo(options: DemoOptions): Promise<number> {
  const interrupted = new Promise<number>((resolve) => {
    for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => resolve(0));
  });
  const playground = await openPlayground(options);
  try {
    if (options.story) return await Promise.race([interrupted, playStory(playground, console.log).then(() => 0)]);

    printWelcome(playground);
    const end = await Promise.race([interrupted, playground.app.failed]);
    if (typeof end === "number") return end;
    throw new UserError(`The app stopped: ${end}.`);
  } finally {
    await playground.close();
  }
}

async function openPlayground({ port, model, story }: DemoOptions): Promise<Playground> {
  const { env: environment } = process;
  const options = { model: chooseModel(model, environment), environment, onRestart: console.log };
  if (port !== undefined || story) return startPlayground({ ...options, port: port ?? 0 });
  try {
    return await startPlayground({ ...options, port: defaultPort });
  } catch (error) {
    // The person did not choose the default port, so any free one will do.
    if (error instanceof UserError && error.message.startsWith("Port "))
      return startPlayground({ ...options, port: 0 });
    throw error;
  }
}

function printWelcome({ issue, notice, cloneUrl, app }: Playground): void {
  console.log(
    [
      "Golem Forge is running with a local stand-in for GitHub.",
      "",
      `  Open   ${issue.url}`,
      "  Then   comment /run fixer, watch it work, and answer with /approve",
      "",
      "To try a worker of your own, clone the repository and push a file to .github/workers:",
      "",
      `  git clone ${cloneUrl}`,
      "",
      "To see that nothing is lost, kill the app while a worker is running. It is restarted at once:",
      "",
      `  kill -9 ${app.pid}`,
      "",
      notice,
      "Press Ctrl+C to stop everything. No files are left behind.",
    ].join("\n"),
  );
}

/** Prints the message of a UserError and returns the exit code. Any other error is a bug. */
async function reportingErrors(exitCode: number, run: () => number | Promise<number>): Promise<number> {
  try {
    return await run();
  } catch (error) {
    if (!(error instanceof UserError)) throw error;
    console.error(error.message);
    return exitCode;
  }
}

process.exitCode = await reportingErrors(2, () => {
  const options = parseDemoOptions(process.argv.slice(2));
  if (!options.help) return reportingErrors(1, () => runDemo(options));
  console.log(demoUsage);
  return 0;
});
