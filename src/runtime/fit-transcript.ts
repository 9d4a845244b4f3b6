import type { ModelMessage } from "ai";
import { estimateTokens } from "#estimate-tokens.ts";

/** Results this recent are never shortened: the model is working with them. */
const keptResults = 4;
/** Providers count a picture or a document by its pages, not by its bytes. */
const fileTokens = 1_500;
const shortened = "(This older result was left out to save room. Call the tool again if you need it.)";

/**
 * The same conversation within a budget of tokens: the oldest tool results go first, what people and the model said
 * stays. A conversation that is too long even so is returned as short as it gets.
 */
export function fitTranscript(messages: readonly ModelMessage[], maxTokens: number): ModelMessage[] {
  const sizes = messages.map(sizeOf);
  let total = sizes.reduce((sum, size) => sum + size, 0);
  const lastShortenable = messages.filter((message) => message.role === "tool").length - keptResults;

  let seen = 0;
  return messages.map((message, index) => {
    if (message.role !== "tool") return message;
    seen += 1;
    if (total <= maxTokens || seen > lastShortenable) return message;

    const short = shorten(message);
    total -= (sizes[index] ?? 0) - estimateTokens(JSON.stringify(short.content));
    return short;
  });
}

function sizeOf({ content }: ModelMessage): number {
  const parts = typeof content === "string" ? [content] : content;
  const rest = parts.filter((part) => !isFile(part));
  return estimateTokens(JSON.stringify(rest)) + (parts.length - rest.length) * fileTokens;
}

function isFile(part: string | { type: string }): boolean {
  return typeof part !== "string" && part.type === "file";
}

function shorten(message: Extract<ModelMessage, { role: "tool" }>): ModelMessage {
  const content = message.content.map((part) =>
    part.type === "tool-result" ? { ...part, output: { type: "text" as const, value: shortened } } : part,
  );
  return { ...message, content };
}
