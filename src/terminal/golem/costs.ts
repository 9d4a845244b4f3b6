import { UserError } from "#domain/errors.ts";
import { costsToCsv, readDays, sumBy } from "#runtime/views/daily-costs.ts";
import { oneLine } from "#terminal/value-to-text.ts";
import { type CommandContext, exitCodes, parseWords } from "./command-context.ts";
import { chosenDatabase, openServerStore } from "./server-database.ts";

/** `golem costs`: prints the model costs in the server's database by worker, repository and day. */
export async function costs(args: readonly string[], context: CommandContext): Promise<number> {
  const { positionals, options } = parseWords(args, {
    from: { type: "string" },
    to: { type: "string" },
    csv: { type: "boolean" },
    database: { type: "string" },
    "no-color": { type: "boolean" },
  });
  if (positionals.length > 0) throw new UserError("Use golem costs [--from <day>] [--to <day>] [--csv].");
  const given = (name: string) => options.get(name)?.at(-1)?.toString();
  const days = readDays({ from: given("from"), to: given("to") }, Date.now());
  const store = await openServerStore(await chosenDatabase(options, context));
  try {
    const found = await store.dailyCosts(days);
    if (options.has("csv")) {
      context.output.write(costsToCsv(found));
      return exitCodes.answered;
    }
    const total = found.reduce((sum, { cost }) => sum + cost, 0);
    context.output.write(`${dollars(total)} from ${days.from} to ${days.to} (UTC)\n`);
    for (const [title, nameOf] of [
      ["repository", ({ repository: { owner, repo } }: (typeof found)[number]) => `${owner}/${repo}`],
      ["worker", ({ worker }: (typeof found)[number]) => worker],
      ["day", ({ day }: (typeof found)[number]) => day],
    ] as const) {
      const sums = sumBy(found, nameOf);
      if (title === "day") sums.sort((a, b) => b.name.localeCompare(a.name));
      if (sums.length > 0) context.output.write(`\nby ${title}\n`);
      for (const { name, cost } of sums) context.output.write(`  ${dollars(cost).padStart(10)}  ${oneLine(name)}\n`);
    }
    return exitCodes.answered;
  } finally {
    await store.close();
  }
}

function dollars(amount: number): string {
  return `$${amount.toFixed(amount > 0 && amount < 1 ? 4 : 2)}`;
}
