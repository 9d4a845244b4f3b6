import { UserError } from "#domain/errors.ts";
import { didYouMean } from "#text/closest-match.ts";
import { pluralize } from "#text/pluralize.ts";
import { normalizeName } from "#toolsets/call-arguments.ts";
import {
  classifyCommand,
  isBuiltinCommand,
  isCommand,
  isInteractive,
  optionsToArgs,
  type ParsedCommand,
  parseCommand,
} from "#ui/command.ts";
import { parseFieldValue } from "#ui/form-fields.ts";
import type { ManualToolField, ManualToolInfo } from "#ui/manual-tool.ts";
import type { DisplayEvents, UIEventBus } from "#ui/ui-event-bus.ts";
import type { AskQuestion, Prompter } from "./prompter.ts";
import type { Style } from "./style.ts";
import { oneLine } from "./value-to-text.ts";

/** The state of the worker as last shown. */
export interface Screen {
  tools: ManualToolInfo[];
  workers: Map<string, DisplayEvents["workerUpdate"]>;
  context: DisplayEvents["contextUsage"] | undefined;
}

interface LineContext {
  bus: UIEventBus;
  screen: Screen;
  style: Style;
  prompter: Prompter;
  print(...lines: string[]): void;
  /** Aborted when the open questions are withdrawn. */
  signal: AbortSignal;
  /** Ends the session. */
  leave(): void;
}

const help = [
  "/help                     show this list",
  "/model [name]             show or change the model",
  "/clear                    start a new conversation",
  "/revoke [id]              revoke an approval for the session; without an id, list them",
  "/status                   show what the worker is doing",
  "/tools                    list the tools you can call",
  "/tool name --option value call a tool; /t and /name are short forms",
  "/tool name -i             call a tool and enter each option",
  "/exit                     end the session",
  "any other line            is passed to the running worker",
  "Ctrl+C                    interrupt the worker",
];

/** Handles a line that answers no question: a slash command, or a message for the worker. Prints an error if the line is invalid. */
export async function handleLine(line: string, context: LineContext): Promise<void> {
  try {
    await runCommand(line, context);
  } catch (error) {
    if (!(error instanceof UserError)) throw error;
    context.print(...error.message.split("\n").map((sentence) => `${context.style("red", "✗")} ${oneLine(sentence)}`));
  }
}

async function runCommand(line: string, context: LineContext): Promise<void> {
  const { screen, print, bus } = context;
  const parsed = isCommand(line) ? parseCommand(line) : null;
  if (!parsed) return bus.emit("userMessage", { content: line });

  const asked = classifyCommand(parsed, screen.tools);
  if (asked.type === "tool") return callTool(asked.toolName, parsed, context);
  if (asked.type === "unknown") throw new UserError(describeUnknown(parsed, screen));
  switch (asked.command) {
    case "help":
      return print(...help);
    case "tools":
    case "ts":
      return print(...listTools(screen.tools));
    case "status":
    case "config":
      return print(...describeStatus(screen));
    case "clear":
      return bus.emit("command", { name: "clear", args: [] });
    case "revoke":
      return bus.emit("command", { name: "revoke", args: parsed.args });
    case "model":
      if (parsed.args.length === 0) return print(`The model is ${oneLine(modelOf(screen) ?? "not known yet")}.`);
      return bus.emit("command", { name: "model", args: parsed.args });
    case "exit":
      return context.leave();
  }
}

async function callTool(name: string, parsed: ParsedCommand, context: LineContext): Promise<void> {
  const tool = context.screen.tools.find((one) => one.name === name);
  if (!tool) throw new UserError(describeUnknown({ ...parsed, name }, context.screen));

  const args = isInteractive(parsed) ? await askFields(tool, context) : readOptions(tool, parsed);
  if (args) context.bus.emit("manualToolInvoke", { toolName: tool.name, args });
  else context.print("The tool was not called.");
}

/** Asks for each field, and repeats the question after an invalid answer. Resolves to undefined if the person cancels. */
function askFields(
  tool: ManualToolInfo,
  { prompter, signal }: LineContext,
): Promise<Record<string, unknown> | undefined> {
  return prompter.dialogue(async (ask) => {
    const args: Record<string, unknown> = {};
    for (const field of tool.fields) {
      const given = await askField(field, (question) => ask(question, { verbatim: true, signal }), prompter);
      if (given === undefined) return undefined;
      if (given.value !== undefined) args[field.name] = given.value;
    }
    return args;
  });
}

async function askField(
  field: ManualToolField,
  ask: AskQuestion,
  prompter: Prompter,
): Promise<{ value: unknown } | undefined> {
  for (;;) {
    const typed = await ask(describeField(field));
    if (typed === undefined) return undefined;
    if (typed.trim() === "" && !field.required) return { value: undefined };
    try {
      if (typed.trim() === "") throw new UserError(`${field.name} is required.`);
      return { value: parseFieldValue(field, typed) };
    } catch (error) {
      if (!(error instanceof UserError)) throw error;
      prompter.print(`${oneLine(error.message)}\n`);
    }
  }
}

function describeField({ name, description, type, required, options, default: preset }: ManualToolField): string {
  const kind = options ? options.join("|") : type === "boolean" ? "yes|no" : type;
  const optional = preset !== undefined ? `, default ${oneLine(JSON.stringify(preset))}` : required ? "" : ", optional";
  return `${oneLine(name)} (${oneLine(kind)}${optional})${description ? ` ${oneLine(description)}` : ""}: `;
}

/** Matches the options to the tool's fields. The tool validates the values. */
function readOptions(tool: ManualToolInfo, { options, args }: ParsedCommand): Record<string, unknown> {
  const stray = args.find((word) => word.toLowerCase() !== tool.name.toLowerCase());
  if (stray !== undefined) {
    throw new UserError(
      `${JSON.stringify(stray)} has no option name. Write --name ${JSON.stringify(stray)}, or use /tool ${tool.name} -i to enter each option.`,
    );
  }
  const read = Object.entries(options).map(([option, typed]) => {
    const field =
      tool.fields.find(({ name }) => normalizeName(name) === normalizeName(option)) ?? fieldByLetter(option, tool);
    return field ? [field.name, parseFieldValue(field, typed)] : [option, optionsToArgs({ [option]: typed })[option]];
  });
  return Object.fromEntries(read);
}

function fieldByLetter(option: string, { fields }: ManualToolInfo): ManualToolField | undefined {
  const matching = option.length === 1 ? fields.filter(({ name }) => name.startsWith(option)) : [];
  return matching.length === 1 ? matching[0] : undefined;
}

function listTools(tools: readonly ManualToolInfo[]): string[] {
  if (tools.length === 0) return ["This worker has no tools that you can call."];
  const groups = Map.groupBy(tools, ({ category = "Other" }) => category);
  return [...groups].flatMap(([category, members]) => [
    `${oneLine(category)}:`,
    ...members.map(
      ({ name, label, description }) => `  /${oneLine(name)}  ${oneLine(label)} — ${oneLine(description)}`,
    ),
  ]);
}

function describeStatus({ workers, context }: Screen): string[] {
  const lines = [...workers.values()].map(({ task, status, depth, model, tools = [] }) => {
    const about = [model, tools.length > 0 && pluralize(tools.length, "tool")].filter(Boolean).join(", ");
    return `${"  ".repeat(depth)}${oneLine(task)}: ${status}${about ? ` (${oneLine(about)})` : ""}`;
  });
  const used = context ? [`Context: ${context.tokensUsed} of ${context.tokenLimit} tokens`] : [];
  return lines.length > 0 ? [...lines, ...used] : ["No worker has run yet.", ...used];
}

function modelOf({ workers }: Screen): string | undefined {
  return [...workers.values()].find(({ depth }) => depth === 0)?.model;
}

/** The commands that a person can enter, each with its slash. */
export function completableCommands(tools: readonly ManualToolInfo[]): string[] {
  const builtin = ["help", "model", "clear", "revoke", "status", "tools", "tool", "exit"];
  return [...builtin, ...tools.map(({ name }) => name)].map((name) => `/${name}`);
}

function describeUnknown({ name }: Pick<ParsedCommand, "name">, { tools }: Screen): string {
  if (isBuiltinCommand(name.toLowerCase())) return "Name a tool, as in /tool name. /tools lists them.";
  return `Unknown command /${name}.${didYouMean(`/${name}`, completableCommands(tools))} /help lists the commands.`;
}
