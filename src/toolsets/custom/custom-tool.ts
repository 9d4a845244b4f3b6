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

/** The time limit of everything but the call itself: its validation, its approval rule, its preview. */
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

/** A tool of a module. Its schemas, its approval rule and its execution are evaluated in the module's process. */
export function customTool(
  process: Pick<ToolProcess, "ask">,
  described: ToolDescription,
  { approval, deadlineMs }: CustomToolOptions,
): NamedTool {
  const { exportName, hasPreview, hasReason, needsApproval, inputSchema, outputSchema, ...rest } = described;
  const { manualExecution, aliases, readOnly, afterCrash } = rest;

  function ask(task: HostRequest["task"], args: unknown, context?: ToolContext): Promise<unknown> {
    return process.ask({
      task,
      tool: exportName,
      args,
      deadlineMs: task === "execute" ? deadlineMs : Math.min(maxCheckMs, deadlineMs),
      ...(context && contextOf(context)),
    });
  }
  /** The module's own schema decides, in the module's process, where its code and its cost belong. */
  function schemaOf(json: Record<string, unknown>, task: "checkInput" | "checkOutput") {
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

  const reasons = new Map<string, string>();
  const tool: NamedTool = {
    name: described.name,
    description: described.description,
    inputSchema: schemaOf(inputSchema, "checkInput"),
    ...(outputSchema && { outputSchema: schemaOf(outputSchema, "checkOutput") }),
    execute: async (args, context) => toToolResult(await ask("execute", args, context)),
    ...(hasPreview && {
      preview: async (args, context) => {
        const preview = await ask("preview", args, context);
        return typeof preview === "string" ? preview.slice(0, maxPreviewCharacters) : undefined;
      },
    }),
    ...(typeof needsApproval === "boolean" && { needsApproval }),
    ...(manualExecution && { manualExecution: withoutUndefined(manualExecution) }),
    ...(aliases && { aliases }),
    ...(readOnly !== undefined && { readOnly }),
    ...(afterCrash && { afterCrash }),
  };
  const decision = approval?.tools?.[described.name] ?? approval?.tools?.[exportName];
  const settings: ApprovalConfig = {
    ...(approval?.default && { default: approval.default }),
    ...(decision && { tools: { [described.name]: decision } }),
  };
  const settled = applyApprovalSettings(needsApproval === "rule" ? { ...tool, needsApproval: true } : tool, settings);
  const { needsApproval: known } = settled;
  const isAsked = known === true && (needsApproval === "rule" || hasReason);
  if (!isAsked) return settled;

  return {
    ...settled,
    async needsApproval(args: unknown, context: ToolContext) {
      const { needed, reason } = await judge(args, context);
      if (reason) reasons.set(canonicalJson(args), reason);
      return needed ?? true;
    },
    approvalReason: (args) => reasons.get(canonicalJson(args)) ?? `The worker wants to call ${described.name}.`,
  };

  async function judge(args: unknown, context: ToolContext): Promise<z.infer<typeof Judgement>> {
    try {
      return Judgement.parse(await ask("judge", args, context));
    } catch (error) {
      // A rule that could not be evaluated has not refused the call: a person decides.
      if (error instanceof ToolError && ["TIMEOUT", "EXECUTION_ERROR", "UNAVAILABLE"].includes(error.code)) {
        throw new Error(error.message, { cause: error });
      }
      throw error;
    }
  }
}

/** Arguments are validated again where the tool runs, so a check that failed to run is reported by the call itself. */
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
