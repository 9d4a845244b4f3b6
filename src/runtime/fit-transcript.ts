import type { ModelMessage } from "ai";
import { estimateTokens } from "#estimate-tokens.ts";

/** Turns whose results are kept, tried in order: the model is working with the latest, so they go last. */
const keptTurns = [4, 1, 0];
const shortened = "(This result was left out to save room. Call the tool again, for a smaller part, if you need it.)";

/**
 * The same conversation within a budget of tokens: the oldest tool results go first, what people and the model said
 * stays. Undefined when it is too long even so.
 */
export function fitTranscript(messages: readonly ModelMessage[], maxTokens: number): ModelMessage[] | undefined {
  const sizes = messages.map(sizeOf);
  for (const kept of keptTurns) {
    const fitted = leaveOut(messages, sizes, maxTokens, kept);
    if (fitted) return fitted;
  }
  return undefined;
}

function leaveOut(
  messages: readonly ModelMessage[],
  sizes: readonly number[],
  maxTokens: number,
  kept: number,
): ModelMessage[] | undefined {
  let total = sizes.reduce((sum, size) => sum + size, 0);
  const lastShortenable = messages.filter((message) => message.role === "tool").length - kept;

  let seen = 0;
  const fitted = messages.map((message, index) => {
    if (message.role !== "tool") return message;
    seen += 1;
    if (total <= maxTokens || seen > lastShortenable) return message;

    const short = shorten(message);
    total -= (sizes[index] ?? 0) - sizeOf(short);
    return short;
  });
  return total <= maxTokens ? fitted : undefined;
}

function sizeOf({ content }: ModelMessage): number {
  return estimateTokens(JSON.stringify(content));
}

function shorten(message: Extract<ModelMessage, { role: "tool" }>): ModelMessage {
  const content = message.content.map((part) =>
    part.type === "tool-result" ? { ...part, output: { type: "text" as const, value: shortened } } : part,
  );
  return { ...message, content };
}
