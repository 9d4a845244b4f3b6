import type { ModelMessage } from "ai";
import { estimateTokens } from "#text/estimate-tokens.ts";

/** Messages whose results are kept, tried in order: the model is working with the latest, so they go last. */
const keptResults = [4, 1, 0];
const shortened = "(This result was left out to save room. Call the tool again, for a smaller part, if you need it.)";

/**
 * The same conversation within a budget of tokens: the oldest tool results go first, what people and the model said
 * stays. Undefined when it is too long even so.
 */
export function fitTranscript(messages: readonly ModelMessage[], maxTokens: number): ModelMessage[] | undefined {
  const sizes = messages.map(sizeOf);
  for (const kept of keptResults) {
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
  const lastShortenable = messages.filter(holdsResults).length - kept;

  let seen = 0;
  const fitted = messages.map((message, index) => {
    if (!holdsResults(message)) return message;
    seen += 1;
    if (total <= maxTokens || seen > lastShortenable) return message;

    const short = message.role === "tool" ? shorten(message) : withoutSearches(message);
    total -= (sizes[index] ?? 0) - sizeOf(short);
    return short;
  });
  return total <= maxTokens ? fitted : undefined;
}

type AssistantMessage = Extract<ModelMessage, { role: "assistant" }>;
type ToolMessage = Extract<ModelMessage, { role: "tool" }>;

/** True for what tools said, and for an answer within which the provider has searched by itself. */
function holdsResults(message: ModelMessage): message is ToolMessage | AssistantMessage {
  if (message.role === "tool") return true;
  if (message.role !== "assistant" || typeof message.content === "string") return false;
  return message.content.some(({ type }) => type === "tool-result");
}

/** A search and what it found go together: providers refuse one without the other. */
function withoutSearches(message: AssistantMessage): AssistantMessage {
  if (typeof message.content === "string") return message;
  const rest = message.content.filter(
    (part) => part.type !== "tool-result" && !(part.type === "tool-call" && part.providerExecuted),
  );
  return { ...message, content: rest.length > 0 ? rest : shortened };
}

function sizeOf({ content }: ModelMessage): number {
  return estimateTokens(JSON.stringify(content));
}

function shorten(message: ToolMessage): ToolMessage {
  const content = message.content.map((part) =>
    part.type === "tool-result" ? { ...part, output: { type: "text" as const, value: shortened } } : part,
  );
  return { ...message, content };
}
