import { randomInt } from "node:crypto";
import type { AssistantContent, ContentPart, JSONValue, ModelMessage, ToolCallPart, ToolResultPart, ToolSet } from "ai";
import { z } from "zod";
import { messageOf } from "#domain/errors.ts";
import type { ModelCall } from "#domain/events.ts";
import { isTooComplex } from "#domain/json-schema.ts";
import { isObject } from "#text/json-values.ts";
import type { ModelAnswer } from "./models.ts";

type Part = ContentPart<ToolSet>;
type CallPart = Extract<Part, { type: "tool-call" }>;
type AssistantPart = Exclude<AssistantContent, string>[number];

/** An answer of the model in the form that the runtime stores. */
export type ReadAnswer = Pick<ModelAnswer, "text" | "calls" | "messages" | "searches">;

/**
 * Splits an answer into text, tool calls, the provider's web searches and the assistant message to send back. Calls that the
 * provider executed itself are sent back with their results and are not returned as tool calls. Calls with an empty id or
 * an id that is used in the conversation get a new one.
 */
export function readAnswer(parts: readonly Part[], conversation: readonly ModelMessage[]): ReadAnswer {
  const calls: ModelCall[] = [];
  const isUsed = (id: string) => calls.some(({ callId }) => callId === id) || hasCall(conversation, id);
  const content: AssistantPart[] = [];
  for (const part of parts) {
    if (part.type !== "tool-call" || part.providerExecuted) {
      content.push(...toSendBack(part));
      continue;
    }
    const call = readCall(part, isUsed);
    calls.push(call);
    content.push(callToSendBack(part, call));
  }
  const text = parts.map((part) => (part.type === "text" ? part.text : "")).join("");
  return {
    // Sources are added to final answers only.
    text: calls.length > 0 || text.trim() === "" ? text : text + citeSources(parts),
    calls,
    messages: content.length > 0 ? [{ role: "assistant", content }] : [],
    searches: readSearches(parts),
  };
}

function hasCall(conversation: readonly ModelMessage[], id: string): boolean {
  for (const { role, content } of conversation) {
    if (role !== "assistant" || typeof content === "string") continue;
    for (const part of content) if (part.type === "tool-call" && part.toolCallId === id) return true;
  }
  return false;
}

function readCall(part: CallPart, isUsed: (id: string) => boolean): ModelCall {
  const callId = uniqueId(part.toolCallId, isUsed);
  // After an invented name such as "functions.read file", providers would refuse all further requests of the conversation.
  const tool = part.toolName.replaceAll(/[^\w-]/g, "_").slice(0, 64) || "unnamed";
  // Models often send nothing instead of {} for a call without arguments.
  if (part.input === "" || part.input === undefined) return { callId, tool, args: {} };

  if (isTooComplex(part.input)) return { callId, tool, args: {}, parseError: tooComplex };

  const parseError = typeof part.input === "string" && part.invalid ? describeInvalidJson(part.input) : undefined;
  return { callId, tool, args: part.input, ...(parseError && { parseError }) };
}

const tooComplex = "The arguments have too many values, or are nested too deeply.";

function uniqueId(given: string, isUsed: (id: string) => boolean): string {
  let id = given.trim();
  while (id === "" || isUsed(id)) id = newId();
  return id;
}

// Mistral only accepts ids of nine letters and digits, which all other providers accept as well.
function newId(): string {
  const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
  return Array.from({ length: 9 }, () => alphabet.charAt(randomInt(alphabet.length))).join("");
}

function describeInvalidJson(text: string): string {
  try {
    JSON.parse(text);
  } catch (error) {
    return `The arguments are not valid JSON: ${messageOf(error)}`;
  }
  return "The arguments must be a JSON object without the keys __proto__ and constructor.";
}

function callToSendBack({ providerMetadata }: CallPart, { callId, tool, args }: ModelCall): ToolCallPart {
  // Providers refuse messages with tool inputs that are not objects.
  const input = isObject(args) ? args : {};
  return { type: "tool-call", toolCallId: callId, toolName: tool, input, ...options(providerMetadata) };
}

function searchToSendBack({ toolCallId, toolName, input, providerMetadata }: CallPart): ToolCallPart {
  const made = { toolCallId, toolName, input: input ?? {}, providerExecuted: true };
  return { type: "tool-call", ...made, ...options(providerMetadata) };
}

function resultToSendBack(
  { toolCallId, toolName, providerMetadata }: Extract<Part, { type: "tool-result" | "tool-error" }>,
  output: ToolResultPart["output"],
): ToolResultPart {
  return { type: "tool-result", toolCallId, toolName, output, ...options(providerMetadata) };
}

function toSendBack(part: Part): AssistantPart[] {
  switch (part.type) {
    case "text":
    case "reasoning":
      // An empty part with metadata is a signature or encrypted reasoning, which has to be sent back.
      if (part.text === "" && !part.providerMetadata) return [];
      return [{ type: part.type, text: part.text, ...options(part.providerMetadata) }];
    case "file":
    case "reasoning-file": {
      const { base64, mediaType } = part.file;
      return [{ type: part.type, data: base64, mediaType, ...options(part.providerMetadata) }];
    }
    case "custom":
      return [{ type: "custom", kind: part.kind, ...options(part.providerMetadata) }];
    case "tool-call":
      return [searchToSendBack(part)];
    case "tool-result":
      return [resultToSendBack(part, { type: "json", value: part.output })];
    case "tool-error":
      return [resultToSendBack(part, { type: "error-json", value: part.error as JSONValue })];
    case "source":
    case "tool-approval-request":
    case "tool-approval-response":
      return [];
  }
}

function options<T>(metadata: T | undefined): { providerOptions?: T } {
  return metadata === undefined ? {} : { providerOptions: metadata };
}

const maxSources = 10;

/** Lists the pages that the provider found, in Markdown to append to the answer; `""` if it names none. */
function citeSources(parts: readonly Part[]): string {
  const sources = new Map<string, string>();
  for (const part of parts) {
    if (part.type === "source" && part.sourceType === "url" && isWebUrl(part.url)) {
      sources.set(part.url, part.title ?? sources.get(part.url) ?? "");
    }
  }
  if (sources.size === 0) return "";
  return `\n\nFound on the web:\n${[...sources].slice(0, maxSources).map(citeSource).join("\n")}`;
}

function isWebUrl(url: string): boolean {
  return /^https?:\/\//.test(url) && URL.canParse(url);
}

function citeSource([url, title]: [string, string]): string {
  const target = new URL(url).href.replace(/[()]/g, (character) => (character === "(" ? "%28" : "%29"));
  const name = title
    .replace(/[[\]\\`<>]/g, "")
    .replace(/\s+/g, " ")
    .trim()
    .slice(0, 120);
  return `- [${name || new URL(url).host}](${target})`;
}

const searchText = z.string().min(1);
/** The forms in which providers report searches: Anthropic in the call, OpenAI in the result, Google as a list in the call. */
const Search = z.union([
  z.object({ action: z.object({ queries: z.array(searchText).min(1) }) }).transform(({ action }) => action.queries),
  z.object({ action: z.object({ query: searchText }) }).transform(({ action }) => [action.query]),
  z.object({ action: z.object({ url: searchText }) }).transform(({ action }) => [action.url]),
  z.object({ queries: z.array(searchText).min(1) }).transform(({ queries }) => queries),
  z.object({ query: searchText }).transform(({ query }) => [query]),
]);
const maxSearchLength = 200;

/** The provider's web searches in one answer, in order: a query or a URL each. */
function readSearches(parts: readonly Part[]): string[] {
  return parts.flatMap((part) => {
    if (part.type === "tool-call" && part.providerExecuted) return searchesIn(part.input);
    if (part.type === "tool-result" && part.providerExecuted) return searchesIn(part.output);
    return [];
  });
}

function searchesIn(value: unknown): string[] {
  const searches = Search.safeParse(value).data ?? [];
  return searches.map((search) => search.replace(/\s+/g, " ").trim().slice(0, maxSearchLength));
}
