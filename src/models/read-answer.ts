import { randomInt } from "node:crypto";
import type { AssistantContent, ContentPart, JSONValue, ModelMessage, ToolCallPart, ToolResultPart, ToolSet } from "ai";
import type { ModelCall } from "#domain/events.ts";
import { citeSources } from "./cite-sources.ts";
import { readSearches } from "./read-searches.ts";

type Part = ContentPart<ToolSet>;
type CallPart = Extract<Part, { type: "tool-call" }>;
type AssistantPart = Exclude<AssistantContent, string>[number];

/** What a model said, as the runtime keeps it. */
export interface ReadAnswer {
  text: string;
  calls: ModelCall[];
  messages: ModelMessage[];
  searches: string[];
}

/**
 * Sorts the parts of an answer into text, calls, the provider's own searches and the assistant message to send back. What
 * the provider has done itself is no call: it goes back with its result, as it came. `taken` holds the ids of calls
 * made before in this conversation: a call whose id is empty or taken gets a new one, here and in the message.
 */
export function readAnswer(parts: readonly Part[], taken: Set<string>): ReadAnswer {
  const calls: ModelCall[] = [];
  const content: AssistantPart[] = [];
  for (const part of parts) {
    if (part.type !== "tool-call" || part.providerExecuted) {
      content.push(...toSendBack(part));
      continue;
    }
    const call = readCall(part, taken);
    calls.push(call);
    content.push(callToSendBack(part, call));
  }
  const text = parts.map((part) => (part.type === "text" ? part.text : "")).join("");
  return {
    // Sources belong to an answer, and not to every thought on the way to it.
    text: calls.length > 0 || text.trim() === "" ? text : text + citeSources(parts),
    calls,
    messages: content.length > 0 ? [{ role: "assistant", content }] : [],
    searches: readSearches(parts),
  };
}

/** The ids of every tool call in a conversation. */
export function callIdsIn(messages: readonly ModelMessage[]): Set<string> {
  const parts = messages.flatMap((message): AssistantPart[] =>
    message.role === "assistant" && typeof message.content !== "string" ? message.content : [],
  );
  return new Set(parts.flatMap((part) => (part.type === "tool-call" ? [part.toolCallId] : [])));
}

function readCall(part: CallPart, taken: Set<string>): ModelCall {
  const callId = uniqueId(part.toolCallId, taken);
  const tool = acceptableName(part.toolName);
  // A model that has nothing to say to a tool often says nothing instead of {}.
  if (part.input === "" || part.input === undefined) return { callId, tool, args: {} };

  const unreadable = typeof part.input === "string" && part.invalid ? describeBrokenJson(part.input) : undefined;
  return { callId, tool, args: part.input, ...(unreadable && { parseError: unreadable }) };
}

function uniqueId(given: string, taken: Set<string>): string {
  let id = given.trim();
  while (id === "" || taken.has(id)) id = newId();
  taken.add(id);
  return id;
}

// Mistral takes only ids of nine letters and digits, and everyone else takes those as well.
function newId(): string {
  const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
  return Array.from({ length: 9 }, () => alphabet.charAt(randomInt(alphabet.length))).join("");
}

// An invented name such as "functions.read file" would make providers refuse every later call of the conversation.
function acceptableName(name: string): string {
  return name.replaceAll(/[^\w-]/g, "_").slice(0, 64) || "unnamed";
}

function describeBrokenJson(text: string): string {
  try {
    JSON.parse(text);
  } catch (error) {
    return `The arguments are no JSON: ${error instanceof Error ? error.message : error}`;
  }
  return "The arguments are JSON that is not accepted: they must be an object, without a __proto__ or constructor key.";
}

function callToSendBack({ providerMetadata }: CallPart, { callId, tool, args }: ModelCall): ToolCallPart {
  // Providers refuse a message in which the input of a call is anything but an object.
  const input = typeof args === "object" && args !== null && !Array.isArray(args) ? args : {};
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
      // An empty part with metadata is a signature or an encrypted thought, which must go back.
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
