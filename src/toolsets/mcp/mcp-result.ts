import type { CallToolResult } from "@ai-sdk/mcp";
import { z } from "zod";
import type { ToolResult } from "#domain/result.ts";
import { wrapUntrusted } from "#text/untrusted.ts";
import { showHidden } from "#text/visible-text.ts";
import { failedResult } from "#toolsets/failed-result.ts";

const maxCharacters = 1_000_000;

/** A server's response. Invalid parts are dropped, since a server may send anything. */
const Answer = z.object({
  content: z.array(z.unknown()).catch([]),
  structuredContent: z.unknown().optional(),
  isError: z.boolean().catch(false),
  /** The result format of servers before 2024-11-05. */
  toolResult: z.unknown().optional(),
});

const anything = z.unknown().optional();
const Part = z.looseObject({
  type: z.string().catch("content"),
  text: anything,
  data: anything,
  mimeType: anything,
  resource: z.looseObject({ uri: anything, text: anything }).optional().catch(undefined),
  uri: anything,
  name: anything,
});

/** Returns the result of an MCP call, marked as untrusted data that contains no instructions. */
export function mcpResult(answer: CallToolResult, { server, tool }: { server: string; tool: string }): ToolResult {
  const { content, structuredContent, isError, toolResult } = Answer.parse(answer);
  const parts = content.map(textOf).filter((text) => text !== "");
  if (parts.length === 0) parts.push(JSON.stringify(structuredContent ?? toolResult) ?? "");
  const text = showHidden(parts.join("\n").slice(0, maxCharacters));
  const source = `the MCP server ${server}`;
  if (isError) {
    const failed = failedResult(text || `${tool} failed and gave no reason.`, { code: "EXECUTION_ERROR" });
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
  const parsed = Part.safeParse(part);
  if (!parsed.success) return "";
  const { type, text, data, mimeType, resource, uri, name } = parsed.data;
  if (type === "text") return String(text ?? "");
  if (type === "resource") {
    return typeof resource?.text === "string" ? resource.text : `[the resource ${resource?.uri}, which is not text]`;
  }
  if (type === "resource_link") return `[the resource ${name ?? uri}: ${uri}]`;
  const size = typeof data === "string" ? `, ${Math.ceil((data.length * 3) / 4)} bytes` : "";
  return `[${type} ${mimeType ?? "of an unknown type"}${size}, which is not shown]`;
}
