import { UserError } from "#domain/errors.ts";
import { getManualTools, isManualTool, type NamedTool } from "#domain/tool.ts";
import { closestMatch } from "#text/closest-match.ts";
import type { Toolbox } from "#toolsets/toolbox.ts";
import { classifyCommand, isBuiltinCommand, isInteractive, type ParsedCommand } from "#ui/command.ts";
import { extractManualToolInfo, getManualToolInfos } from "#ui/form-fields.ts";
import type { ToolReply } from "./tool-reply.ts";

/** A command, matched with a run's tools. */
export type ToolCommand =
  | Extract<ToolReply, { kind: "list" | "form" }>
  /** `agreed` is the value of `--yes`. */
  | { kind: "run"; tool: NamedTool; options: ParsedCommand["options"]; agreed: string | undefined }
  /** The command could be the name of a tool, but there is no such tool. */
  | { kind: "unknown"; message: string };

/** Matches a parsed command with a run's tools. Throws a UserError for a command that cannot be run. */
export function readToolCommand(parsed: ParsedCommand, { tools, find }: Pick<Toolbox, "tools" | "find">): ToolCommand {
  const manual = getManualTools(tools);
  const command = classifyCommand(parsed, manual);
  const isBuiltin = isBuiltinCommand(parsed.name.toLowerCase());
  if (command.type !== "tool" && isBuiltin) return { kind: "list", tools: getManualToolInfos(manual) };

  const name = command.type === "tool" ? command.toolName : parsed.name;
  const tool = find(name);
  if (!tool || !isManualTool(tool)) {
    const message = tool ? describeModelTool(tool, manual) : describeUnknown(name, manual);
    if (!isBuiltin) return { kind: "unknown", message };
    throw new UserError(message);
  }
  const form = isInteractive(parsed) && extractManualToolInfo(tool);
  if (form) return { kind: "form", tool: form };

  const [positional] = isBuiltin ? parsed.args.slice(1) : parsed.args;
  if (positional !== undefined) {
    const value = JSON.stringify(positional);
    throw new UserError(
      `Give ${value} with the name of an option, such as --name ${value}. /tool ${tool.name} -i lists the options.`,
    );
  }
  const { yes, ...options } = parsed.options;
  return { kind: "run", tool, options, agreed: typeof yes === "string" ? yes.toLowerCase() : undefined };
}

/** Returns the command line that `parseCommand` reads as these options of this tool. */
export function writeToolCommand(tool: string, options: ParsedCommand["options"]): string {
  return [`/tool ${tool}`, ...Object.entries(options).map(([name, value]) => writeOption(name, value))].join(" ");
}

function writeOption(name: string, value: string | boolean): string {
  const option = name.length === 1 ? `-${name}` : `--${name}`;
  if (typeof value === "boolean") return option;
  const isPlain = /^[\w./:@+,][\w./:@+,-]*$/.test(value);
  return isPlain ? `${option} ${value}` : `${option}="${value.replace(/["\\]/g, "\\$&")}"`;
}

function describeUnknown(name: string, manual: readonly NamedTool[]): string {
  const names = manual.flatMap((tool) => [tool.name, ...(tool.aliases ?? [])]);
  const closest = closestMatch(name, names);
  const suggestion = closest ? ` Did you mean ${closest}?` : "";
  return `There is no tool ${JSON.stringify(name)} here.${suggestion} ${describeManual(manual)}`;
}

function describeModelTool({ name }: NamedTool, manual: readonly NamedTool[]): string {
  return `${name} can only be called by the worker. ${describeManual(manual)}`;
}

function describeManual(manual: readonly NamedTool[]): string {
  if (manual.length === 0) return "This worker has no tools that people can call.";
  return `You can call: ${manual.map(({ name }) => name).join(", ")}.`;
}
