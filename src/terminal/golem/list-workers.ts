import { readLocalConfig } from "#config/config.ts";
import { UserError } from "#domain/errors.ts";
import { findRoot } from "#sandbox/checkout/open-checkout.ts";
import { createStyle } from "#terminal/style.ts";
import { oneLine } from "#terminal/value-to-text.ts";
import type { CommandContext } from "./command-context.ts";
import { openLocalWorkers } from "./local-workers.ts";

/** Returns the output of `golem workers`. */
export async function listWorkers({ cwd, env, output }: CommandContext): Promise<string> {
  const { workersDirectory } = readLocalConfig(env);
  const root = await findRoot(cwd).catch((error) => {
    if (error instanceof UserError) return undefined;
    throw error;
  });
  const listed = await (await openLocalWorkers(root, workersDirectory)).list();
  const paint = createStyle(output);
  const width = Math.max(0, ...listed.map(({ name }) => name.length));
  const lines = listed.map(({ name, description = "", isOwn }) => {
    const from = isOwn ? paint("gray", " (of this checkout)") : "";
    return `${paint("bold", oneLine(name).padEnd(width))}  ${oneLine(description)}${from}`.trimEnd();
  });
  return lines.length > 0 ? `${lines.join("\n")}\n` : "There are no workers.\n";
}
