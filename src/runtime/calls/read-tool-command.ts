import { UserError } from "#domain/errors.ts";
import { getManualTools, isManualTool, type NamedTool } from "#domain/tool.ts";
import { closestMatch } from "#text/closest-match.ts";
import type { Toolbox } from "#toolsets/toolbox.ts";
import { classifyCommand, isBuiltinCommand, isInteractive, type ParsedCommand } from "#ui/command.ts";
import { extractManualToolInfo, getManualToolInfos } from "#ui/form-fields.ts";
import type { ToolReply } from "./tool-reply.ts";

/** What a command line asks of a run's tools. */
export type AskedOfTools =
  | Extract<ToolReply, { kind: "list" | "form" }>
  /** `agreed`: what stands behind `--yes`. */
  | { kind: "run"; tool: NamedTool; options: ParsedCommand["options"]; agreed: string | undefined }
  /** The command itself would be the name of a tool, and there is none. */
  | { kind: "unknown"; message: string };

/** Looks up what a parsed command asks of a run's tools. Throws a UserError. */
export function readInvocation(parsed: ParsedCommand, { tools, find }: Pick<Toolbox, "tools" | "find">): AskedOfTools {
  const manual = getManualTools(tools);
  const asked = classifyCommand(parsed, manual);
  if (asked.type !== "tool" && isBuiltinCommand(parsed.name.toLowerCase()))
    return { kind: "list", tools: getManualToolInfos(manual) };

  const isDirect = !isBuiltinCommand(parsed.name.toLowerCase());
  const name = asked.type === "tool" ? asked.toolName : parsed.name;
  const tool = find(name);
  if (!tool || !isManualTool(tool)) {
    const message = tool ? describeModelTool(tool, manual) : describeUnknown(name, manual);
    if (isDirect) return { kind: "unknown", message };
    throw new UserError(message);
  }
  const form = isInteractive(parsed) && extractManualToolInfo(tool);
  if (form) return { kind: "form", tool: form };

  const [stray] = isDirect ? parsed.args : parsed.args.slice(1);
  if (stray !== undefined) {
    throw new UserError(
      `${JSON.stringify(stray)} stands alone: write what it is for, as in --name ${JSON.stringify(stray)}. /tool ${tool.name} -i lists the options.`,
    );
  }
  const { yes, ...options } = parsed.options;
  return { kind: "run", tool, options, agreed: typeof yes === "string" ? yes.toLowerCase() : undefined };
}

function describeUnknown(name: string, manual: readonly NamedTool[]): string {
  const words = manual.flatMap((tool) => [tool.name, ...(tool.aliases ?? [])]);
  const near = closestMatch(name, words);
  return `There is no tool ${JSON.stringify(name)} here.${near ? ` Did you mean ${near}?` : ""} ${listOf(manual)}`;
}

function describeModelTool({ name }: NamedTool, manual: readonly NamedTool[]): string {
  return `${name} is a tool of the worker, and not one that people call. ${listOf(manual)}`;
}

function listOf(manual: readonly NamedTool[]): string {
  if (manual.length === 0) return "This worker has no tools that people can call.";
  return `People can call: ${manual.map(({ name }) => name).join(", ")}.`;
}
