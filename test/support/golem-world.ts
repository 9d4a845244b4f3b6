import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { PassThrough } from "node:stream";
import { onTestFinished } from "vitest";
import { type ModelServer, type ModelServerOptions, startModelServer, turnOf } from "#playground/model/model-server.ts";
import { golem } from "#terminal/golem/golem-command.ts";
import { checkoutWorld } from "./checkout-world.ts";
import { pseudoTerminal } from "./terminal-world.ts";

export type Turn = Exclude<Awaited<ReturnType<ModelServerOptions["script"]>>, undefined>;

export const aWorkerFile = `---
name: careful
description: Asks before it writes.
toolsets:
  filesystem: {}
  git: {}
  github: {}
  ask: {}
sandbox: { approval: { write: ask } }
---
You are careful.
`;

interface WorldOptions {
  turns: readonly Turn[];
  /** How the model fails when it is called first. */
  failure?: Turn;
  files?: Record<string, string>;
}

/** Creates a checkout with a worker that asks before it writes, and a model that gives the turns in order. */
export async function golemWorld({ turns, failure, files = {} }: WorldOptions) {
  const checkout = checkoutWorld({ "a.txt": "a\n", ".github/workers/careful.worker": aWorkerFile, ...files });
  const failures = failure ? [failure] : [];
  const model: ModelServer = await startModelServer({
    script: ({ messages }) => failures.pop() ?? (turns[Math.min(turnOf(messages), turns.length - 1)] as Turn),
  });
  onTestFinished(() => model.close());
  const state = join(checkout.parent, "state");
  const env = {
    GOLEM_FORGE_MODEL: "compatible:scripted",
    OPENAI_COMPATIBLE_BASE_URL: model.url,
    GOLEM_FORGE_SANDBOX: "off",
    XDG_STATE_HOME: state,
  };

  return {
    ...checkout,
    model,
    env,
    /** Returns the messages of the last request to the model. */
    sent: () => JSON.stringify(model.requests.at(-1)?.messages),
    offered: () => (model.requests[0]?.tools ?? []).map((tool) => tool.function.name),
    /** Returns the patch files that were kept. */
    kept: () => {
      const folder = join(state, "golem-forge");
      try {
        return readdirSync(folder)
          .filter((name) => name.endsWith(".patch"))
          .map((name) => readFileSync(join(folder, name), "utf8"));
      } catch {
        return [];
      }
    },
    /** Runs a command in the checkout. */
    give: (words: readonly string[], { cwd = checkout.root, change = {}, ...given }: Given = {}) =>
      giveGolem(words, { ...given, cwd, env: { ...env, ...change } }),
  };
}

interface Given {
  isTTY?: boolean;
  /** The width of the terminal that standard output is. By default standard output is no terminal. */
  columns?: number;
  cwd?: string;
  /** Standard input, if it is not a terminal. */
  piped?: string;
  /** Changes to the environment. */
  change?: Record<string, string | undefined>;
}

/** Runs a command at a terminal, or without one if `isTTY` is false. */
export function giveGolem(
  words: readonly string[],
  {
    isTTY = true,
    columns,
    cwd,
    env,
    piped = "",
  }: Omit<Given, "change"> & { cwd: string; env: Record<string, string | undefined> },
) {
  const terminal = pseudoTerminal();
  Object.assign(terminal.input, { isTTY });
  if (columns !== undefined) Object.assign(terminal.output, { isTTY: true, columns });
  if (!isTTY) terminal.input.end(piped);
  const errors = new PassThrough();
  let complaints = "";
  let answer = "";
  terminal.output.on("data", (chunk) => {
    answer += String(chunk);
  });
  errors.on("data", (chunk) => {
    complaints += String(chunk);
    terminal.show(String(chunk));
  });
  const left = Promise.withResolvers<number>();
  return {
    ...terminal,
    /** Resolves to the exit code. */
    code: golem(words, { cwd, env, input: terminal.input, output: terminal.output, errors, leave: left.resolve }),
    /** Resolves to the exit code with which `leave` would have ended the process. */
    left: left.promise,
    /** Returns everything written to standard output. */
    output: () => answer,
    errors: () => complaints,
    interrupt: () => terminal.input.write("\u0003"),
  };
}

export const write = (path = "a.txt", content = "worker\n"): Turn => ({
  calls: [{ name: "write_file", args: { path, content } }],
});
