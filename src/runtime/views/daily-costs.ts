import { UserError } from "#domain/errors.ts";
import { dayMs } from "#domain/work-context.ts";
import type { DailyCost } from "#runtime/store/store.ts";

const defaultDays = 30;
const maxDays = 366;

/** The first and the last day, in UTC. */
export interface Days {
  from: string;
  to: string;
}

/** Reads the requested range of days. Default: the last 30. Throws a UserError for days that do not exist. */
export function readDays({ from, to }: { from?: string | undefined; to?: string | undefined }, now: number): Days {
  const last = to || dayOf(now);
  if (!isDay(last)) throw new UserError(`${JSON.stringify(last)} is not a valid date. Use the format 2026-01-31.`);
  const first = from || dayOf(Date.parse(last) - (defaultDays - 1) * dayMs);
  if (!isDay(first)) throw new UserError(`${JSON.stringify(first)} is not a valid date. Use the format 2026-01-31.`);
  const days = (Date.parse(last) - Date.parse(first)) / dayMs + 1;
  if (days < 1) throw new UserError(`The range from ${first} to ${last} is empty.`);
  if (days > maxDays)
    throw new UserError(`The range from ${first} to ${last} is longer than ${maxDays} days. Choose a shorter one.`);
  return { from: first, to: last };
}

function dayOf(at: number): string {
  return new Date(at).toISOString().slice(0, 10);
}

function isDay(text: string): boolean {
  return /^\d{4}-\d\d-\d\d$/.test(text) && !Number.isNaN(Date.parse(text)) && dayOf(Date.parse(text)) === text;
}

/** Adds up costs by name, largest sum first. */
export function sumBy(
  costs: readonly DailyCost[],
  nameOf: (cost: DailyCost) => string,
): { name: string; cost: number }[] {
  return [...Map.groupBy(costs, nameOf)]
    .map(([name, group]) => ({ name, cost: group.reduce((sum, { cost }) => sum + cost, 0) }))
    .sort((a, b) => b.cost - a.cost || a.name.localeCompare(b.name));
}

const columns = [
  "day",
  "repository",
  "worker",
  "runs",
  "model_calls",
  "input_tokens",
  "cached_input_tokens",
  "output_tokens",
  "cost_usd",
];

/** Formats costs as CSV (RFC 4180), with a row for each day, repository and worker. */
export function costsToCsv(costs: readonly DailyCost[]): string {
  const rows = costs.map(({ day, repository: { owner, repo }, worker, ...cost }) => [
    day,
    `${owner}/${repo}`,
    worker,
    cost.runs,
    cost.modelCalls,
    cost.inputTokens,
    cost.cachedInputTokens,
    cost.outputTokens,
    // As many digits as prices have, without binary fractions.
    Number(cost.cost.toFixed(6)),
  ]);
  return [columns, ...rows].map((row) => `${row.map(cell).join(",")}\r\n`).join("");
}

function cell(value: string | number): string {
  const text = String(value);
  // A spreadsheet would treat text that begins like this as a formula.
  const safe = typeof value === "string" && /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}
