import { realpath } from "node:fs/promises";
import { resolve } from "node:path";
import { z } from "zod";
import { ApprovalConfig, canonicalJson } from "#domain/approval.ts";
import { ToolError, UserError } from "#domain/errors.ts";
import type { NamedTool } from "#domain/tool.ts";
import { checkApprovalNames } from "#toolsets/approval-settings.ts";
import type { Toolset } from "#toolsets/toolset.ts";
import { customTool } from "./custom-tool.ts";
import { digestOfFiles, findModule, readableAround } from "./find-module.ts";
import type { ToolDescription } from "./messages.ts";
import { type ToolModule, ToolProcess } from "./tool-process.ts";

const exportName = z
  .string()
  .regex(/^[A-Za-z_$][\w$]*$/, "Name a tool as the module exports it, such as calculateFibonacci");

/** The settings of a module's tools and of their approval. */
export const CustomToolsetConfig = z.strictObject({
  /** Relative to the worker file. */
  module: z.string().min(1),
  /** The exports that become tools. Nothing else of the module can be called. */
  tools: z.array(exportName).min(1, "Name the exports that become tools").max(100),
  approval: ApprovalConfig.optional(),
  /** The time limit of a call in seconds. */
  timeout: z.number().positive().max(600).default(60),
});
export type CustomToolsetConfig = z.input<typeof CustomToolsetConfig>;

/** Provides a worker's own tools from a `tools.ts` next to its file. They can access nothing but the sandbox. */
export const customToolset: Toolset<z.output<typeof CustomToolsetConfig>> = {
  name: "custom",
  config: CustomToolsetConfig,
  async create({ module, ...settings }, services) {
    const found = await findModule(module, services);
    services.onClose?.(() => found.release());
    const loaded = await loadModule(found, settings);
    services.onClose?.(() => loaded.close());
    return loaded.tools;
  },
};

/**
 * Loads tools from a module on disk into a process that can access nothing but the sandbox of a call. Rejects with a
 * UserError that names the module and the export. `close` ends the process, which also ends with this one.
 */
export async function loadCustomTools(
  modulePath: string,
  config: Omit<CustomToolsetConfig, "module"> & Partial<Pick<CustomToolsetConfig, "module">>,
): Promise<NamedTool[] & { close(): Promise<void> }> {
  const path = await realpath(resolve(modulePath)).catch(() => {
    throw new UserError(`${modulePath} does not exist.`);
  });
  const loaded = await loadModule({ path, shown: modulePath, readable: await readableAround(path) }, config);
  return Object.assign(loaded.tools, { close: loaded.close });
}

export interface LoadedModule {
  tools: NamedTool[];
  close(): Promise<void>;
}

/** Tool descriptions by module digest: an unchanged module is started only when a tool is called. */
const descriptionsByDigest = new Map<string, ToolDescription[]>();
const maxDescriptions = 200;

async function loadModule(
  module: ToolModule,
  { tools: names, approval, timeout = 60 }: Omit<CustomToolsetConfig, "module">,
): Promise<LoadedModule> {
  const wanted = [...new Set(names)];
  const process = new ToolProcess(module, wanted);
  try {
    const key = `${await digestOfFiles(module.readable)} ${wanted.join(" ")}`;
    const descriptions = descriptionsByDigest.get(key) ?? (await process.describe());
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
  descriptionsByDigest.delete(key);
  descriptionsByDigest.set(key, descriptions);
  const oldest = descriptionsByDigest.keys().next().value;
  if (descriptionsByDigest.size > maxDescriptions && oldest !== undefined) descriptionsByDigest.delete(oldest);
}

/** Refuses calls if the module has changed since it was described: old approval rules must not apply to new code. */
function ensureUnchanged(
  process: ToolProcess,
  descriptions: ToolDescription[],
  shown: string,
): Pick<ToolProcess, "ask"> {
  const expected = canonicalJson(descriptions);
  return {
    async ask(request) {
      if (canonicalJson(await process.describe()) === expected) return process.ask(request);
      throw new ToolError(`${shown} was changed while the run was active.`, {
        code: "STALE",
        suggestion: "Continue without its tools; they are available again after the run's next pause.",
      });
    },
  };
}
