import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import type { Executors } from "#executors/create-executors.ts";
import { applyChanges } from "#sandbox/checkout/apply-changes.ts";
import type { Checkout } from "#sandbox/checkout/open-checkout.ts";
import { applyCommandChanges, workspaceTree } from "#toolsets/run-command.ts";
import type { HiddenCheckResult } from "./eval-results.ts";
import type { EvalTask } from "./eval-tasks.ts";

export interface CheckOptions extends Pick<EvalTask, "sandbox" | "checkTimeoutMs"> {
  executors: Executors;
  /** Runs the commands on this machine without a sandbox. */
  unsafe: boolean;
  signal: AbortSignal;
}

const maxOutputBytes = 100_000;
const shownCharacters = 4_000;

/** Runs commands in order on the files of a checkout, up to the first that fails if `stopOnFailure`. */
export async function runCommandList(
  commands: readonly string[],
  checkout: Checkout,
  options: CheckOptions & { stopOnFailure?: boolean },
): Promise<HiddenCheckResult[]> {
  if (commands.length === 0) return [];
  const session = options.unsafe ? openHost(checkout, options) : await openSandbox(checkout, options);
  const results: HiddenCheckResult[] = [];
  try {
    for (const command of commands) {
      options.signal.throwIfAborted();
      const { exitCode, output } = await session.run(command);
      results.push({ command, exitCode, output: output.slice(-shownCharacters) });
      if (exitCode !== 0 && options.stopOnFailure) break;
    }
  } finally {
    await session.close();
  }
  return results;
}

interface CommandSession {
  run(command: string): Promise<{ exitCode: number | null; output: string }>;
  close(): Promise<void>;
}

async function openSandbox(
  { tree }: Checkout,
  { executors, sandbox, checkTimeoutMs, signal }: CheckOptions,
): Promise<CommandSession> {
  const session = await executors.openSession(sandbox, `eval ${randomUUID()}`);
  return {
    async run(command) {
      const { exitCode, stdout, stderr, timedOut, stopped, changes } = await session.exec(workspaceTree(tree, tree), {
        command: ["bash", "-c", command],
        timeoutMs: checkTimeoutMs,
        outputBytes: maxOutputBytes,
        signal,
      });
      await applyCommandChanges(changes, tree, { isApproved: () => true });
      const end = stopped ?? (timedOut ? "It timed out." : "");
      return { exitCode, output: [stdout, stderr, end].filter(Boolean).join("\n") };
    },
    close: () => session.close(),
  };
}

/** Writes the changes to disk and runs commands without access to the person's keys and home folder. */
function openHost(checkout: Checkout, { checkTimeoutMs, signal }: CheckOptions): CommandSession {
  const { root } = checkout;
  const { refused, failed } = applyChanges(root, checkout.changes());
  const [problem] = [...refused, ...failed];
  if (problem) throw new Error(`${problem.path} ${problem.reason}.`);
  return {
    run: (command) => runOnHost(command, root, AbortSignal.any([signal, AbortSignal.timeout(checkTimeoutMs)])),
    close: async () => {},
  };
}

function runOnHost(command: string, root: string, signal: AbortSignal) {
  const { promise, resolve, reject } = Promise.withResolvers<{ exitCode: number | null; output: string }>();
  const env = { PATH: process.env.PATH, HOME: root, LANG: "C.UTF-8" };
  // A separate process group, so that all its processes can be killed.
  const child = spawn("bash", ["-c", command], { cwd: root, env, detached: true, stdio: ["ignore", "pipe", "pipe"] });
  let output = "";
  const add = (chunk: Buffer) => {
    output = (output + chunk.toString("utf8")).slice(-maxOutputBytes);
  };
  child.stdout.on("data", add);
  child.stderr.on("data", add);
  const kill = () => {
    if (child.pid !== undefined && child.exitCode === null) process.kill(-child.pid, "SIGKILL");
  };
  signal.addEventListener("abort", kill, { once: true });
  child.on("error", reject);
  child.on("close", (exitCode) => {
    signal.removeEventListener("abort", kill);
    resolve({ exitCode, output });
  });
  return promise;
}
