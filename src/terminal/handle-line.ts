import { UserError } from "#domain/errors.ts";
import { closestMatch } from "#text/closest-match.ts";
import {
  classifyCommand,
  isBuiltinCommand,
  isCommand,
  isInteractive,
  optionsToArgs,
  type ParsedCommand,
  parseCommand,
} from "#ui/command.ts";
import { type ManualToolField, type ManualToolInfo, parseFieldValue } from "#ui/form-fields.ts";
import type { UIEventBus } from "#ui/ui-event-bus.ts";
import type { DisplayEvents } from "#ui/ui-events.ts";
import type { Paint } from "./paint.ts";
import type { Prompter } from "./prompter.ts";
import { oneLine } from "./render-value.ts";

/** What the screen knows of the worker, for `/status` and for commands. */
export interface Screen {
  tools: ManualToolInfo[];
  workers: Map<string, DisplayEvents["workerUpdate"]>;
  context: DisplayEvents["contextUsage"] | undefined;
}

interface LineContext {
  bus: UIEventBus;
  screen: Screen;
  paint: Paint;
  prompter: Prompter;
  print(...lines: string[]): void;
  /** Aborted when the person wants none of it any more. */
  signal: AbortSignal;
  /** The person wants to go. */
  leave(): void;
}

const help = [
  "/help                     what there is",
  "/model [name]             the model, or another one",
  "/clear                    begin the conversation anew",
  "/status                   what the worker is doing",
  "/tools                    the tools you can call",
  "/tool name --option value call one; /t and /name do the same",
  "/tool name -i             be asked for each option",
  "/exit                     leave",
  "Ctrl+C                    interrupt the worker",
];

/** Does what a line asks for that nobody waited for. What cannot be done is said. */
export async function handleLine(line: string, desk: LineContext): Promise<void> {
  try {
    await obey(line, desk);
  } catch (error) {
    if (!(error instanceof UserError)) throw error;
    desk.print(...error.message.split("\n").map((sentence) => `${desk.paint("red", "✗")} ${oneLine(sentence)}`));
  }
}

async function obey(line: string, desk: LineContext): Promise<void> {
  const { screen, print, bus } = desk;
  const parsed = isCommand(line) ? parseCommand(line) : null;
  if (!parsed) return print("Nobody waits for an answer now. /help shows what you can do.");

  const asked = classifyCommand(parsed, screen.tools);
  if (asked.type === "tool") return callTool(asked.toolName, parsed, desk);
  if (asked.type === "unknown") throw new UserError(unknown(parsed, screen));
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
    case "model":
      if (parsed.args.length === 0) return print(`The model is ${modelOf(screen) ?? "not known yet"}.`);
      return bus.emit("command", { name: "model", args: parsed.args });
    case "exit":
      return desk.leave();
  }
}

async function callTool(name: string, parsed: ParsedCommand, desk: LineContext): Promise<void> {
  const tool = desk.screen.tools.find((one) => one.name === name);
  if (!tool) throw new UserError(unknown({ ...parsed, name }, desk.screen));

  const args = isInteractive(parsed) ? await askFields(tool, desk) : readOptions(tool, parsed);
  if (args) desk.bus.emit("manualToolInvoke", { toolName: tool.name, args });
  else desk.print("Nothing was run.");
}

/** Asks for each field in turn, again when the answer will not do; undefined when the person leaves. */
async function askFields(tool: ManualToolInfo, desk: LineContext): Promise<Record<string, unknown> | undefined> {
  const args: Record<string, unknown> = {};
  for (const field of tool.fields) {
    const given = await askField(field, desk);
    if (given === undefined) return undefined;
    if (given.value !== undefined) args[field.name] = given.value;
  }
  return args;
}

async function askField(
  field: ManualToolField,
  { prompter, signal }: LineContext,
): Promise<{ value: unknown } | undefined> {
  for (;;) {
    const typed = await prompter.ask(describeField(field), { verbatim: true, signal });
    if (typed === undefined) return undefined;
    if (typed.trim() === "" && !field.required) return { value: undefined };
    try {
      if (typed.trim() === "") throw new UserError(`${field.name} is needed.`);
      return { value: parseFieldValue(field, typed) };
    } catch (error) {
      if (!(error instanceof UserError)) throw error;
      prompter.print(`${oneLine(error.message)}\n`);
    }
  }
}

function describeField({ name, description, type, required, options, default: preset }: ManualToolField): string {
  const kind = options ? options.join("|") : type === "boolean" ? "yes|no" : type;
  const otherwise = preset !== undefined ? `, otherwise ${JSON.stringify(preset)}` : required ? "" : ", may be empty";
  return `${oneLine(name)} (${oneLine(kind)}${otherwise})${description ? ` ${oneLine(description)}` : ""}: `;
}

/** The options of the command by the tool's fields; the tool itself checks them once more. */
function readOptions(tool: ManualToolInfo, { options, args }: ParsedCommand): Record<string, unknown> {
  const stray = args.find((word) => word.toLowerCase() !== tool.name.toLowerCase());
  if (stray !== undefined) {
    throw new UserError(
      `${JSON.stringify(stray)} stands alone: write what it is for, as in --name ${JSON.stringify(stray)}. /tool ${tool.name} -i asks for each.`,
    );
  }
  const read = Object.entries(options).map(([option, typed]) => {
    const field = tool.fields.find(({ name }) => plainWord(name) === plainWord(option)) ?? byLetter(option, tool);
    return field ? [field.name, parseFieldValue(field, typed)] : [option, optionsToArgs({ [option]: typed })[option]];
  });
  return Object.fromEntries(read);
}

function byLetter(option: string, { fields }: ManualToolInfo): ManualToolField | undefined {
  const fitting = option.length === 1 ? fields.filter(({ name }) => name.startsWith(option)) : [];
  return fitting.length === 1 ? fitting[0] : undefined;
}

function plainWord(word: string): string {
  return word.replaceAll(/[-_]/g, "").toLowerCase();
}

function listTools(tools: readonly ManualToolInfo[]): string[] {
  if (tools.length === 0) return ["This worker has no tools that people can call."];
  const groups = Map.groupBy(tools, ({ category = "Other" }) => category);
  return [...groups].flatMap(([category, members]) => [
    `${oneLine(category)}:`,
    ...members.map(({ name, label, description }) => `  /${name}  ${oneLine(label)} — ${oneLine(description)}`),
  ]);
}

function describeStatus({ workers, context }: Screen): string[] {
  const lines = [...workers.values()].map(({ task, status, depth, model, tools = [] }) => {
    const about = [model, tools.length > 0 && `${tools.length} tools`].filter(Boolean).join(", ");
    return `${"  ".repeat(depth)}${oneLine(task)}: ${status}${about ? ` (${about})` : ""}`;
  });
  const used = context ? [`Context: ${context.tokensUsed} of ${context.tokenLimit} tokens`] : [];
  return lines.length > 0 ? [...lines, ...used] : ["No worker has run yet.", ...used];
}

function modelOf({ workers }: Screen): string | undefined {
  return [...workers.values()].find(({ depth }) => depth === 0)?.model;
}

function unknown({ name }: Pick<ParsedCommand, "name">, { tools }: Screen): string {
  if (isBuiltinCommand(name.toLowerCase())) return "Name a tool, as in /tool name. /tools lists them.";
  const near = closestMatch(name, [
    "help",
    "model",
    "clear",
    "status",
    "tools",
    "exit",
    ...tools.map((tool) => tool.name),
  ]);
  return `There is no /${name}.${near ? ` Did you mean /${near}?` : ""} /help shows what there is.`;
}
