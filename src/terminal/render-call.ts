import type { DisplayEvents, ToolResultStatus } from "#ui/ui-event-bus.ts";
import type { Style, TextFormat } from "./style.ts";
import { oneLine, printableLines, valueToText } from "./value-to-text.ts";

type Shown = DisplayEvents["toolResult"];

const maxParamsLength = 80;
const colours: Record<ToolResultStatus | "running", TextFormat> = {
  success: "green",
  error: "red",
  interrupted: "yellow",
  running: "gray",
};

/** Renders `ToolName(params)` in the colour of its status. */
export function renderPill(
  { toolName, args = {} }: Pick<Shown, "toolName" | "args">,
  status: ToolResultStatus | "running",
  style: Style,
): string {
  const mark = status === "running" ? "○" : "●";
  return style(colours[status], `${mark} ${oneLine(toolName)}(${describeParams(args)})`);
}

/** Renders the pill of a finished call, with the result below it after `└>`. */
export function renderCall(shown: Shown, style: Style, { details }: { details: boolean }): string[] {
  const { value, status, error } = shown;
  if (status !== "success") {
    const why = status === "interrupted" ? "interrupted" : (error ?? "failed");
    return [renderPill(shown, status, style), ...branch(printableLines(why).slice(0, details ? 10 : 1))];
  }
  if (value?.kind === "task_list" && "tasks" in value) {
    const count = `${value.tasks.length} ${value.tasks.length === 1 ? "task" : "tasks"}`;
    const pill = renderPill({ ...shown, args: { "": count } }, status, style);
    return [pill, ...(details ? valueToText(value, style).map((line) => ` ${line}`) : [])];
  }
  const pill = renderPill(shown, status, style);
  if (!value || value.display?.preferredView === "hidden") return [pill];

  const rendered = valueToText(value, style);
  const lines = rendered.some((line) => line.trim() !== "") ? rendered : [];
  const summary = value.summary === undefined ? [] : [oneLine(value.summary)];
  return [
    pill,
    ...branch(
      details ? [...summary, ...lines.filter((line) => line !== summary[0])] : [...summary, ...lines].slice(0, 1),
    ),
  ];
}

function branch(lines: readonly string[]): string[] {
  return lines.map((line, index) => (index === 0 ? `└> ${line}` : `   ${line}`));
}

function describeParams(args: Record<string, unknown>): string {
  const entries = Object.entries(args).filter(([, value]) => value !== undefined);
  const text =
    entries.length === 1
      ? shortValue(entries[0]?.[1])
      : entries.map(([key, value]) => `${oneLine(key)}: ${shortValue(value)}`).join(", ");
  return text.length > maxParamsLength ? `${text.slice(0, maxParamsLength - 1)}…` : text;
}

function shortValue(value: unknown): string {
  const text = oneLine(typeof value === "string" ? value : (JSON.stringify(value) ?? ""));
  return text.length > 40 ? `${text.slice(0, 39)}…` : text;
}
