import { realpath } from "node:fs/promises";
import { resolve } from "node:path";
import { jsonSchema } from "ai";
import { LRUCache } from "lru-cache";
import { z } from "zod";
import { toToolResult } from "#compat/to-tool-result.ts";
import { ApprovalConfig, canonicalJson } from "#domain/approval.ts";
import { ToolError, UserError } from "#domain/errors.ts";
import type { NamedTool, ToolContext } from "#domain/tool.ts";
import { applyApprovalSettings, checkApprovalNames } from "#toolsets/approval-settings.ts";
import type { Toolset } from "#toolsets/toolset.ts";
import { toPreview } from "#ui/request-blocks.ts";
import { digestOf, findModule, readableAround, type ToolModule } from "./find-module.ts";
import type { ToolDescription } from "./messages.ts";
import { type HostRequest, ToolProcess } from "./tool-process.ts";

const exportName = z
  .string()
  .regex(/^[A-Za-z_$][\w$]*$/, "Name a tool as the module exports it, such as calculateFibonacci");

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

/** Tool descriptions by module digest: an unchanged module is started only when a tool is called. */
const descriptionsByDigest = new LRUCache<string, ToolDescription[]>({ max: 200 });

async function loadModule(
  module: ToolModule,
  { tools: names, approval, timeout = 60 }: Omit<CustomToolsetConfig, "module">,
): Promise<{ tools: NamedTool[]; close(): Promise<void> }> {
  const wanted = [...new Set(names)];
  const process = new ToolProcess(module, wanted);
  try {
    const digest = await digestOf(module);
    const key = `${digest} ${wanted.join(" ")}`;
    const descriptions = descriptionsByDigest.get(key) ?? (await process.describe());
    descriptionsByDigest.set(key, descriptions);
    const callable = descriptions.flatMap(({ name, exportName }) => [name, exportName]);
    checkApprovalNames(approval, callable, module.shown);

    const unchanged = ensureUnchanged(process, { descriptions, digest, shown: module.shown });
    const options = { approval, digest, deadlineMs: timeout * 1_000 };
    return { tools: descriptions.map((one) => customTool(unchanged, one, options)), close: () => process.close() };
  } catch (error) {
    await process.close();
    throw error;
  }
}

/** Refuses calls if the module has changed since it was described: old rules and approvals must not apply to new code. */
function ensureUnchanged(
  process: ToolProcess,
  { descriptions, digest, shown }: { descriptions: ToolDescription[]; digest: string; shown: string },
): Pick<ToolProcess, "ask"> {
  const expected = canonicalJson(descriptions);
  return {
    async ask(request) {
      const isSame = canonicalJson(await process.describe()) === expected && (await process.digest()) === digest;
      if (isSame) return process.ask(request);
      throw new ToolError(`${shown} was changed while the run was active.`, {
        code: "STALE",
        suggestion: "Continue without its tools; they are available again after the run's next pause.",
      });
    },
  };
}

/** The time limit for everything but the call itself: validation, approval rule, preview. */
const maxCheckMs = 5_000;
const maxPreviewCharacters = 60_000;

const Checked = z.union([
  z.object({ valid: z.literal(true) }),
  z.object({
    valid: z.literal(false),
    issues: z
      .array(
        z.object({
          code: z.string().max(100).optional(),
          path: z.array(z.union([z.string(), z.number()])).max(50),
          message: z.string().max(2_000),
          expected: z.string().max(200).optional(),
          keys: z.array(z.string()).max(50).optional(),
          values: z.array(z.unknown()).max(50).optional(),
        }),
      )
      .max(20),
  }),
]);
const Judgment = z.object({ needed: z.boolean().nullish(), reason: z.string().max(2_000).nullish() });

export interface CustomToolOptions {
  approval: ApprovalConfig | undefined;
  /** The digest of the module, to which an approval is bound: its code may change before the call runs. */
  digest: string;
  /** The time limit of a call in milliseconds. */
  deadlineMs: number;
}

/** Creates a tool from a module. Its schemas, approval rule and execution are evaluated in the module's process. */
function customTool(
  process: Pick<ToolProcess, "ask">,
  described: ToolDescription,
  { approval, digest, deadlineMs }: CustomToolOptions,
): NamedTool {
  const ask: Ask = (task, args, context) =>
    process.ask({
      task,
      tool: described.exportName,
      args,
      deadlineMs: task === "execute" ? deadlineMs : Math.min(maxCheckMs, deadlineMs),
      ...(context && contextOf(context)),
    });

  const tool = applyApprovalSettings(toNamedTool(described, digest, ask), settingsFor(described, approval));
  const decidesItself = described.needsApproval === "rule" || described.hasReason;
  return tool.needsApproval === true && decidesItself ? { ...tool, ...ownApproval(described.name, ask) } : tool;
}

/** Asks the module's process to perform a task of the tool. */
type Ask = (task: HostRequest["task"], args: unknown, context?: ToolContext) => Promise<unknown>;

function toNamedTool(described: ToolDescription, digest: string, ask: Ask): NamedTool {
  const { name, description, inputSchema, outputSchema, hasPreview, needsApproval } = described;
  const { manualExecution, aliases, readOnly, afterCrash } = described;
  return {
    name,
    description,
    inputSchema: schemaOf(inputSchema, "checkInput", ask),
    ...(outputSchema && { outputSchema: schemaOf(outputSchema, "checkOutput", ask) }),
    execute: async (args, context) => toToolResult(await ask("execute", args, context)),
    preview: async (args, context) => {
      const preview = hasPreview ? await ask("preview", args, context) : undefined;
      const shown = toPreview(typeof preview === "string" ? preview.slice(0, maxPreviewCharacters) : undefined);
      return { sections: shown?.sections ?? [], bindings: { module: digest } };
    },
    ...(needsApproval !== undefined && { needsApproval: needsApproval === "rule" || needsApproval }),
    ...(manualExecution && { manualExecution: withoutUndefined(manualExecution) }),
    ...(aliases && { aliases }),
    ...(readOnly !== undefined && { readOnly }),
    // A tool that says nothing may have effects outside the sandbox, which must not happen twice.
    afterCrash: afterCrash ?? (readOnly ? "repeat" : "report"),
  };
}

/** Validates with the module's own schema, in the module's process, so that untrusted code and its cost stay there. */
function schemaOf(json: Record<string, unknown>, task: "checkInput" | "checkOutput", ask: Ask) {
  return jsonSchema<unknown>(json, {
    async validate(value) {
      const checked = Checked.parse(await ask(task, value).catch((error) => unchecked(task, error)));
      if (checked.valid) return { success: true, value };
      return {
        success: false,
        error: Object.assign(new Error("The value does not match the schema"), { issues: checked.issues }),
      };
    },
  });
}

/** Returns the worker's settings for one tool, by the tool's name or the name of its export. */
function settingsFor({ name, exportName }: ToolDescription, approval: ApprovalConfig | undefined): ApprovalConfig {
  const decision = approval?.tools?.[name] ?? approval?.tools?.[exportName];
  return {
    ...(approval?.default && { default: approval.default }),
    ...(decision && { tools: { [name]: decision } }),
  };
}

/** Returns the module's own approval rule, which decides for each call and may give a reason. */
function ownApproval(name: string, ask: Ask): Pick<NamedTool, "needsApproval" | "approvalReason"> {
  const reasons = new Map<string, string>();
  return {
    async needsApproval(args: unknown, context: ToolContext) {
      const { needed, reason } = await judge(ask, args, context);
      if (reason) reasons.set(canonicalJson(args), reason);
      return needed ?? true;
    },
    approvalReason: (args) => reasons.get(canonicalJson(args)) ?? `The worker wants to call ${name}.`,
  };
}

async function judge(ask: Ask, args: unknown, context: ToolContext): Promise<z.infer<typeof Judgment>> {
  try {
    return Judgment.parse(await ask("judge", args, context));
  } catch (error) {
    // A rule that could not be evaluated does not refuse the call: a person decides.
    if (error instanceof ToolError && ["TIMEOUT", "EXECUTION_ERROR", "UNAVAILABLE"].includes(error.code)) {
      throw new Error(error.message, { cause: error });
    }
    throw error;
  }
}

/** Accepts a value whose check failed to run. It is validated again where the tool runs, so the call reports the error. */
function unchecked(task: HostRequest["task"], error: unknown): { valid: true } {
  if (task === "checkInput") return { valid: true };
  throw error;
}

function contextOf({ toolCallId, idempotencyKey, run, abortSignal, sandbox, output }: ToolContext) {
  return { facts: { toolCallId, idempotencyKey, run }, signal: abortSignal, sandbox, output };
}

function withoutUndefined<T extends object>(value: T) {
  return Object.fromEntries(Object.entries(value).filter(([, member]) => member !== undefined)) as T & {
    label?: string;
    category?: string;
  };
}
