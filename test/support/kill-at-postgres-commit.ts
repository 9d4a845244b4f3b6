import { appendFileSync } from "node:fs";
import pg from "pg";

/**
 * Loaded into the app's process before the app, as kill-at-commit.ts is over SQLite: ends it with SIGKILL just before its
 * n-th commit is sent to the server or just after it was answered, and counts commits into a file.
 */
const [side, at] = (process.env.KILL_AT ?? "").split(":");
const log = process.env.COMMIT_LOG;
const query: (this: pg.Client, ...parameters: never[]) => unknown = pg.Client.prototype.query;
let commits = 0;

pg.Client.prototype.query = function (this: pg.Client, ...parameters: unknown[]) {
  const [statement] = parameters;
  const text = typeof statement === "string" ? statement : (statement as { text?: string }).text;
  // To begin an effect takes one statement, which is its own transaction.
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
