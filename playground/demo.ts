import { UserError } from "#domain/errors.ts";
import { chooseModel } from "./demo/choose-model.ts";
import { type DemoOptions, demoUsage, parseDemoOptions } from "./demo/demo-options.ts";
import { playStory } from "./demo/play-story.ts";
import { type Playground, startPlayground } from "./demo/start-playground.ts";

const usualPort = 4000;

/** Runs the demo until it is over or somebody stops it, and resolves to the exit code. */
async function demo(options: DemoOptions): Promise<number> {
  const stopped = new Promise<number>((resolve) => {
    for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => resolve(0));
  });
  const playground = await openPlayground(options);
  try {
    if (options.story) return await Promise.race([stopped, playStory(playground, console.log).then(() => 0)]);

    welcome(playground);
    const end = await Promise.race([stopped, playground.app.ended]);
    if (typeof end === "number") return end;
    throw new UserError(`The app stopped: ${end}.`);
  } finally {
    await playground.close();
  }
}

async function openPlayground({ port, model, story }: DemoOptions): Promise<Playground> {
  const environment = process.env;
  const chosen = { model: chooseModel(model, environment), environment };
  if (port !== undefined || story) return startPlayground({ ...chosen, port: port ?? 0 });
  try {
    return await startPlayground({ ...chosen, port: usualPort });
  } catch (error) {
    // Nobody asked for the usual port, so another one is as good.
    if (error instanceof UserError && error.message.startsWith("Port ")) return startPlayground({ ...chosen, port: 0 });
    throw error;
  }
}

function welcome({ issue, notice, github }: Playground): void {
  console.log(
    [
      "Golem Forge runs on a GitHub of its own, on this machine.",
      "",
      `  Open   ${issue.url}`,
      "  Then   comment /run fixer, watch, and answer with /approve",
      `  Clone  ${github.url}/playground/paginate.git`,
      "",
      notice,
      "Ctrl+C stops everything and leaves nothing behind.",
    ].join("\n"),
  );
}

/** What went wrong for somebody who can act on it is one sentence and this exit code. */
async function sayingWhy(exitCode: number, work: () => number | Promise<number>): Promise<number> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof UserError)) throw error;
    console.error(error.message);
    return exitCode;
  }
}

process.exitCode = await sayingWhy(2, () => {
  const options = parseDemoOptions(process.argv.slice(2));
  if (!options.help) return sayingWhy(1, () => demo(options));
  console.log(demoUsage);
  return 0;
});
