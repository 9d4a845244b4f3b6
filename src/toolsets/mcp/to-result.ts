import type { CallToolResult } from "@ai-sdk/mcp";
import type { ToolResult } from "#domain/result.ts";
import { showHidden } from "#text/hidden-characters.ts";
import { wrapUntrusted } from "#text/untrusted.ts";
import { failedResult } from "#toolsets/failed-result.ts";

const mostCharacters = 1_000_000;

/** What a server answered, as data from outside: the model is told where it comes from, and that it instructs nothing. */
export function toResult(answer: CallToolResult, { server, tool }: { server: string; tool: string }): ToolResult {
  const { content, structuredContent, isError } = answer as {
    content?: unknown[];
    structuredContent?: unknown;
    isError?: boolean;
  };
  const parts = (content ?? []).map(textOf).filter((text) => text !== "");
  if (parts.length === 0)
    parts.push(JSON.stringify(structuredContent ?? (answer as { toolResult?: unknown }).toolResult) ?? "");
  const text = showHidden(parts.join("\n").slice(0, mostCharacters));
  const source = `the MCP server ${server}`;
  if (isError) {
    const failed = failedResult(text || `${tool} failed without a word.`, { code: "EXECUTION_ERROR" });
    return { ...failed, llmContent: `Error: ${wrapUntrusted(text, source)}` };
  }
  return {
    llmContent: text === "" ? "Done." : wrapUntrusted(text, source),
    value:
      structuredContent === undefined
        ? { kind: "text", content: text }
        : { kind: "json", data: structuredContent, summary: tool },
  };
}

function textOf(part: unknown): string {
  const { type, text, data, mimeType, resource, uri, name } = part as Record<string, unknown>;
  if (type === "text") return String(text);
  if (type === "resource") {
    const { text: inside, uri: from } = (resource ?? {}) as Record<string, unknown>;
    return typeof inside === "string" ? inside : `[the resource ${from}, which is not text]`;
  }
  if (type === "resource_link") return `[the resource ${name ?? uri}: ${uri}]`;
  const size = typeof data === "string" ? `, ${Math.ceil((data.length * 3) / 4)} bytes` : "";
  return `[${type} ${mimeType ?? "of no known type"}${size}, which is not shown]`;
}
