import type { ModelMessage } from "ai";
import { estimateTokens } from "#text/estimate-tokens.ts";

/** The number of latest messages with results that are kept, tried in order, since the model works with the latest. */
const keptResults = [4, 1, 0];
const placeholder = "(This result was left out to save space. Call the tool again for a smaller part if you need it.)";

/**
 * Shortens a conversation to a number of tokens by leaving out tool results, oldest first. The messages of people and of
 * the model stay. Returns undefined when it is still too long.
 */
export function fitTranscript(messages: readonly ModelMessage[], maxTokens: number): ModelMessage[] | undefined {
  for (const kept of keptResults) {
    const fitted = leaveOutResults(messages, maxTokens, kept);
    if (fitted) return fitted;
  }
  return undefined;
}

function leaveOutResults(
  messages: readonly ModelMessage[],
  maxTokens: number,
  kept: number,
): ModelMessage[] | undefined {
  let total = messages.reduce((sum, message) => sum + sizeOf(message), 0);
  const shortenable = messages.filter(holdsResults).length - kept;

  let seen = 0;
  const fitted = messages.map((message) => {
    if (!holdsResults(message)) return message;
    seen += 1;
    if (total <= maxTokens || seen > shortenable) return message;

    const short = shorten(message);
    total -= sizeOf(message) - sizeOf(short);
    return short;
  });
  return total <= maxTokens ? fitted : undefined;
}

type AssistantMessage = Extract<ModelMessage, { role: "assistant" }>;
type ToolMessage = Extract<ModelMessage, { role: "tool" }>;

/** Returns true for tool results, and for an answer that contains results of the provider's own searches. */
function holdsResults(message: ModelMessage): message is ToolMessage | AssistantMessage {
  if (message.role === "tool") return true;
  if (message.role !== "assistant" || typeof message.content === "string") return false;
  return message.content.some(({ type }) => type === "tool-result");
}

/** Leaves out a search together with its results, since providers refuse one without the other. */
function withoutSearches(message: AssistantMessage): AssistantMessage {
  if (typeof message.content === "string") return message;
  const rest = message.content.filter(
    (part) => part.type !== "tool-result" && !(part.type === "tool-call" && part.providerExecuted),
  );
  return { ...message, content: rest.length > 0 ? rest : placeholder };
}

/** Sizes and short versions of messages. A conversation grows at its end, and its messages do not change. */
const sizes = new WeakMap<ModelMessage, number>();
const shortened = new WeakMap<ModelMessage, ModelMessage>();

/** What providers count for a large image. The bytes are not text. */
const tokensPerFile = 1_600;

/** Estimates the tokens of a message. */
export function sizeOf(message: ModelMessage): number {
  const known = sizes.get(message);
  if (known !== undefined) return known;
  const files = typeof message.content === "string" ? 0 : message.content.filter(({ type }) => type === "file").length;
  const text = JSON.stringify(message.content, (key, value) => (key === "data" && files > 0 ? "" : value));
  const size = estimateTokens(text) + files * tokensPerFile;
  sizes.set(message, size);
  return size;
}

function shorten(message: ToolMessage | AssistantMessage): ModelMessage {
  const known = shortened.get(message);
  if (known) return known;
  const short = message.role === "tool" ? withoutResults(message) : withoutSearches(message);
  shortened.set(message, short);
  return short;
}

function withoutResults(message: ToolMessage): ToolMessage {
  const content = message.content.map((part) =>
    part.type === "tool-result" ? { ...part, output: { type: "text" as const, value: placeholder } } : part,
  );
  return { ...message, content };
}
