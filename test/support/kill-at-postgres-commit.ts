import { appendFileSync } from "node:fs";
import pg from "pg";

/**
 * Preloaded into the app's process, like kill-at-commit.ts for SQLite: kills it with SIGKILL just before its n-th commit is
 * sent to the server or just after it was answered, and writes the number of commits to a file.
 */
const [side, at] = (process.env.KILL_AT ?? "").split(":");
const log = process.env.COMMIT_LOG;
const query: (this: pg.Client, ...parameters: never[]) => unknown = pg.Client.prototype.query;
let commits = 0;

pg.Client.prototype.query = function (this: pg.Client, ...parameters: unknown[]) {
  const [statement] = parameters;
  const text = typeof statement === "string" ? statement : (statement as { text?: string }).text;
  // Beginning an effect is a single statement with an implicit transaction.
  if (text !== "commit" && !text?.startsWith("update effects set attempts"))
    return query.apply(this, parameters as never[]);

  commits += 1;
  if (log) appendFileSync(log, ".");
  if (side === "before" && commits === Number(at)) process.kill(process.pid, "SIGKILL");
  const answer = query.apply(this, parameters as never[]);
  if (side === "after" && commits === Number(at)) {
    void (answer as Promise<unknown>).then(() => process.kill(process.pid, "SIGKILL"));
  }
  return answer;
} as typeof pg.Client.prototype.query;
