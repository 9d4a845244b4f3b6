import type { Writable } from "node:stream";
import { truncateLine } from "#text/truncate.ts";
import type { RuntimeEvent, RuntimeEventCallback } from "#ui/runtime-events.ts";
import { createStyle, type Style } from "./style.ts";
import { oneLine, printableLines } from "./value-to-text.ts";

export interface TraceFormatterOptions {
  /** Default: standard error, so that standard output has only the answers. */
  output?: Writable;
  /** `debug` adds the model's input, and the full output of the model and the tools. */
  level?: "normal" | "debug";
}

/** Creates an `onEvent` callback that writes one line per event, indented by the depth of its worker. */
export function createTraceFormatter({
  output = process.stderr,
  level = "normal",
}: TraceFormatterOptions = {}): RuntimeEventCallback {
  const style = createStyle(output);
  return (event) => {
    const indent = "  ".repeat(event.depth);
    const time = style("gray", event.timestamp.toISOString().slice(11, 19));
    const line = `${time} ${describeEvent(event, style)}`;
    const lines = [line, ...(level === "debug" ? detail(event).map((line) => `    ${line}`) : [])];
    output.write(lines.map((line) => `${indent}${line}\n`).join(""));
  };
}

function describeEvent(event: RuntimeEvent, style: Style): string {
  switch (event.type) {
    case "execution_start":
      return style("bold", `▶ ${event.workerPath.join(" -> ")} with ${event.model}`);
    case "message_send":
      return `→ [${event.iteration}] ${event.messages.length} messages, ${event.toolCount} tools`;
    case "response_receive": {
      const calls = event.toolCalls.map(({ name }) => oneLine(name)).join(", ");
      const said = event.text === undefined ? "" : ` ${cut(event.text)}`;
      const tokens = `${event.usage.input} + ${event.usage.output} tokens`;
      return `← [${event.iteration}]${said}${calls && ` calls ${calls}`} (${tokens})`;
    }
    case "approval_request":
      return style("yellow", `? ${oneLine(event.toolName)}: ${cut(event.description)}`);
    case "approval_decision": {
      const how = event.cached
        ? " (earlier, for the session)"
        : event.remember === "session"
          ? " (for the session)"
          : "";
      return style(event.approved ? "green" : "red", `  ${event.approved ? "approved" : "denied"}${how}`);
    }
    case "tool_call_start":
      return `● ${oneLine(event.toolName)} (${event.toolIndex} of ${event.toolTotal}) ${cut(JSON.stringify(event.toolArgs))}`;
    case "tool_call_end":
      return style("green", `✓ ${oneLine(event.toolName)} ${event.durationMs} ms: ${cut(event.output)}`);
    case "tool_call_error":
      return style("red", `✗ ${oneLine(event.toolName)}: ${cut(event.error)}`);
    case "execution_end":
      return style("bold", `■ ${describeTotals(event)}`);
    case "execution_error":
      return style("red", `■ failed: ${cut(event.error)} (${describeTotals(event)})`);
  }
}

function describeTotals(event: Extract<RuntimeEvent, { type: "execution_end" | "execution_error" }>): string {
  const cost = "cost" in event && event.cost !== undefined ? `, $${event.cost.toFixed(4)}` : "";
  const tokens = "totalTokens" in event ? `, ${event.totalTokens.input} + ${event.totalTokens.output} tokens` : "";
  return `${event.totalIterations} iterations, ${event.totalToolCalls} tool calls${tokens}${cost}, ${event.durationMs} ms`;
}

function detail(event: RuntimeEvent): string[] {
  switch (event.type) {
    case "message_send":
      return event.messages.map(({ role, content }) => `${role}: ${cut(contentToText(content), 500)}`);
    case "response_receive":
      return event.text === undefined ? [] : printableLines(event.text);
    case "tool_call_end":
      return printableLines(event.output);
    case "execution_start":
    case "approval_request":
    case "approval_decision":
    case "tool_call_start":
    case "tool_call_error":
    case "execution_end":
    case "execution_error":
      return [];
  }
}

function contentToText(content: unknown): string {
  return typeof content === "string" ? content : (JSON.stringify(content) ?? "");
}

function cut(text: string, maxLength = 100): string {
  return truncateLine(oneLine(text), maxLength);
}
