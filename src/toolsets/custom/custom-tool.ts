import { jsonSchema } from "ai";
import { z } from "zod";
import { toToolResult } from "#compat/to-tool-result.ts";
import type { ApprovalConfig } from "#domain/approval.ts";
import { canonicalJson } from "#domain/approval.ts";
import { ToolError } from "#domain/errors.ts";
import type { NamedTool, ToolContext } from "#domain/tool.ts";
import { applyApprovalSettings } from "#toolsets/approval-settings.ts";
import type { ToolDescription } from "./messages.ts";
import type { HostRequest, ToolProcess } from "./tool-process.ts";

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
const Judgement = z.object({ needed: z.boolean().nullish(), reason: z.string().max(2_000).nullish() });

export interface CustomToolOptions {
  approval: ApprovalConfig | undefined;
  /** The time limit of a call in milliseconds. */
  deadlineMs: number;
}

/** Creates a tool from a module. Its schemas, approval rule and execution are evaluated in the module's process. */
export function customTool(
  process: Pick<ToolProcess, "ask">,
  described: ToolDescription,
  { approval, deadlineMs }: CustomToolOptions,
): NamedTool {
  const ask: Ask = (task, args, context) =>
    process.ask({
      task,
      tool: described.exportName,
      args,
      deadlineMs: task === "execute" ? deadlineMs : Math.min(maxCheckMs, deadlineMs),
      ...(context && contextOf(context)),
    });

  const tool = applyApprovalSettings(toNamedTool(described, ask), settingsFor(described, approval));
  const decidesItself = described.needsApproval === "rule" || described.hasReason;
  return tool.needsApproval === true && decidesItself ? { ...tool, ...ownApproval(described.name, ask) } : tool;
}

/** Asks the module's process to perform a task of the tool. */
type Ask = (task: HostRequest["task"], args: unknown, context?: ToolContext) => Promise<unknown>;

function toNamedTool(described: ToolDescription, ask: Ask): NamedTool {
  const { name, description, inputSchema, outputSchema, hasPreview, needsApproval } = described;
  const { manualExecution, aliases, readOnly, afterCrash } = described;
  return {
    name,
    description,
    inputSchema: schemaOf(inputSchema, "checkInput", ask),
    ...(outputSchema && { outputSchema: schemaOf(outputSchema, "checkOutput", ask) }),
    execute: async (args, context) => toToolResult(await ask("execute", args, context)),
    ...(hasPreview && {
      preview: async (args, context) => {
        const preview = await ask("preview", args, context);
        return typeof preview === "string" ? preview.slice(0, maxPreviewCharacters) : undefined;
      },
    }),
    ...(needsApproval !== undefined && { needsApproval: needsApproval === "rule" || needsApproval }),
    ...(manualExecution && { manualExecution: withoutUndefined(manualExecution) }),
    ...(aliases && { aliases }),
    ...(readOnly !== undefined && { readOnly }),
    ...(afterCrash && { afterCrash }),
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

async function judge(ask: Ask, args: unknown, context: ToolContext): Promise<z.infer<typeof Judgement>> {
  try {
    return Judgement.parse(await ask("judge", args, context));
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
