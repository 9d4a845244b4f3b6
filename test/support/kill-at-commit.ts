import { appendFileSync } from "node:fs";
import { type StatementResultingChanges, StatementSync } from "node:sqlite";

/**
 * Preloaded into the app's process: kills it with SIGKILL just before or just after its n-th commit, and writes the number
 * of commits to a file. `KILL_AT` is `before:12` or `after:12`; `COMMIT_LOG` is the file.
 */
const [side, at] = (process.env.KILL_AT ?? "").split(":");
const log = process.env.COMMIT_LOG;
const run: (this: StatementSync, ...parameters: never[]) => StatementResultingChanges = StatementSync.prototype.run;
let commits = 0;

StatementSync.prototype.run = function (this: StatementSync, ...parameters: unknown[]) {
  if (this.sourceSQL.trim().toLowerCase() !== "commit") return run.apply(this, parameters as never[]);

  commits += 1;
  if (log) appendFileSync(log, ".");
  if (side === "before" && commits === Number(at)) process.kill(process.pid, "SIGKILL");
  const result = run.apply(this, parameters as never[]);
  if (side === "after" && commits === Number(at)) process.kill(process.pid, "SIGKILL");
  return result;
};
