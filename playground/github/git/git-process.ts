import { execFile } from "node:child_process";
import type { GitJob, GitResult } from "./run-git.ts";

// Starts git for `run-git.ts`, which says why, until that process ends.

const maxOutputBytes = 256 * 1024 * 1024;

process.on("message", ({ id, args, env, cwd, input }: GitJob) => {
  const options = { env, cwd, encoding: "buffer" as const, maxBuffer: maxOutputBytes };
  const git = execFile("git", args, options, (error, output, messages) => {
    // A numeric code is git's exit code; anything else means that git did not run to its end.
    const code = error ? error.code : 0;
    const result: GitResult =
      typeof code === "number"
        ? { id, code, output, messages: messages.toString() }
        : { id, problem: error?.message ?? "git did not run" };
    process.send?.(result);
  });
  // Git may answer and close before it has read the whole input.
  git.stdin?.on("error", () => undefined);
  git.stdin?.end(input);
});
process.on("disconnect", () => process.exit(0));
// The terminal sends it to both processes; the other one may still need git to shut down.
process.on("SIGINT", () => undefined);
