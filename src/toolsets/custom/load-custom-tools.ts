import { realpath } from "node:fs/promises";
import { resolve } from "node:path";
import { z } from "zod";
import { ApprovalConfig, canonicalJson } from "#domain/approval.ts";
import { ToolError, UserError } from "#domain/errors.ts";
import type { NamedTool } from "#domain/tool.ts";
import { checkApprovalNames } from "#toolsets/approval-settings.ts";
import { digestOf } from "./code-files.ts";
import { customTool } from "./custom-tool.ts";
import { readableAround } from "./find-module.ts";
import type { ToolDescription } from "./messages.ts";
import { openToolProcess, type ToolModule, type ToolProcess } from "./tool-process.ts";

const exportName = z
  .string()
  .regex(/^[A-Za-z_$][\w$]*$/, "A tool is named as the module exports it, such as calculateFibonacci");

/** Which tools of a module a worker gets, and how they are consented to. */
export const CustomToolsetConfig = z.strictObject({
  /** Relative to the worker file. */
  module: z.string().min(1),
  /** The exports that become tools; nothing else of the module is reachable. */
  tools: z.array(exportName).min(1, "Name the exports that become tools").max(100),
  approval: ApprovalConfig.optional(),
  /** Seconds a call may take. */
  timeout: z.number().positive().max(600).default(60),
});
export type CustomToolsetConfig = z.infer<typeof CustomToolsetConfig>;

/**
 * Loads tools from a module on disk into a process that reaches nothing but what its calls are lent. Rejects with a
 * UserError that names the module, the export and what is there. `close` ends the process; it ends with this one too.
 */
export async function loadCustomTools(
  modulePath: string,
  config: Pick<CustomToolsetConfig, "tools" | "approval"> & { timeout?: number },
): Promise<NamedTool[] & { close(): Promise<void> }> {
  const path = await realpath(resolve(modulePath)).catch(() => {
    throw new UserError(`There is no ${modulePath}.`);
  });
  const loaded = await loadModule({ path, shown: modulePath, readable: await readableAround(path) }, config);
  return Object.assign(loaded.tools, { close: loaded.close });
}

export interface LoadedModule {
  tools: NamedTool[];
  close(): Promise<void>;
}

/** What modules described, by what they were: one that did not change is started only when a tool is called. */
const known = new Map<string, ToolDescription[]>();
const mostKnown = 200;

export async function loadModule(
  module: ToolModule,
  { tools: names, approval, timeout = 60 }: Pick<CustomToolsetConfig, "tools" | "approval"> & { timeout?: number },
): Promise<LoadedModule> {
  const wanted = [...new Set(names)];
  const process = openToolProcess(module, wanted);
  try {
    const key = `${await digestOf(module.readable)} ${wanted.join(" ")}`;
    const descriptions = known.get(key) ?? (await process.describe());
    remember(key, descriptions);
    const callable = descriptions.flatMap(({ name, exportName }) => [name, exportName]);
    checkApprovalNames(approval, callable, module.shown);

    const unchanged = ensureUnchanged(process, descriptions, module.shown);
    const options = { approval, deadlineMs: timeout * 1_000 };
    return { tools: descriptions.map((one) => customTool(unchanged, one, options)), close: () => process.close() };
  } catch (error) {
    await process.close();
    throw error;
  }
}

function remember(key: string, descriptions: ToolDescription[]): void {
  known.delete(key);
  known.set(key, descriptions);
  const oldest = known.keys().next().value;
  if (known.size > mostKnown && oldest !== undefined) known.delete(oldest);
}

/** A module that changes while its tools are in use would be judged by its old rules: it is refused until they are opened again. */
function ensureUnchanged(process: ToolProcess, descriptions: ToolDescription[], shown: string): ToolProcess {
  const expected = canonicalJson(descriptions);
  return {
    ...process,
    async ask(question) {
      if (canonicalJson(await process.describe()) === expected) return process.ask(question);
      throw new ToolError(`${shown} was changed while the run was at work.`, {
        code: "STALE",
        suggestion: "Its tools are there again when the run goes on after its next pause.",
      });
    },
  };
}
