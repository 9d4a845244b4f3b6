import type { ModelMessage } from "ai";
import { estimateTokens } from "#text/estimate-tokens.ts";

/**
 * The numbers of latest messages whose results are kept, tried in order. Older results are left out until a share of
 * the tokens is free again, so that the following requests only add messages and the provider's prompt cache applies.
 */
const attempts = [
  { kept: 4, share: 0.7 },
  { kept: 1, share: 1 },
  { kept: 0, share: 1 },
];
const placeholder = "(This result was left out to save space. Call the tool again for a smaller part if you need it.)";

/**
 * Shortens a conversation to a number of tokens by leaving out tool results, oldest first. Keeps the messages of people
 * and of the model. The choice depends only on the conversation up to the point where it became too long, and stays the
 * same until it is too long again. Returns undefined if it cannot be shortened enough.
 */
export function fitTranscript(messages: readonly ModelMessage[], maxTokens: number): ModelMessage[] | undefined {
  const fitted: Fitted = { messages: [], total: 0, results: [] };
  for (const message of messages) {
    if (holdsResults(message)) fitted.results.push({ index: fitted.messages.length, message });
    fitted.messages.push(message);
    fitted.total += sizeOf(message);
    if (fitted.total <= maxTokens) continue;
    for (const { kept, share } of attempts) {
      if (fitted.total > maxTokens) leaveOutResults(fitted, { kept, maxTokens: maxTokens * share });
    }
  }
  return fitted.total <= maxTokens ? fitted.messages : undefined;
}

interface Fitted {
  messages: ModelMessage[];
  /** Their estimated tokens. */
  total: number;
  /** The messages whose results are still included, oldest first. */
  results: { index: number; message: ToolMessage | AssistantMessage }[];
}

function leaveOutResults(fitted: Fitted, { kept, maxTokens }: { kept: number; maxTokens: number }): void {
  while (fitted.total > maxTokens && fitted.results.length > kept) {
    const oldest = fitted.results.shift();
    if (!oldest) return;
    const short = shorten(oldest.message);
    fitted.messages[oldest.index] = short;
    fitted.total -= sizeOf(oldest.message) - sizeOf(short);
  }
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

/** The tokens that providers count for a large image. Its bytes are not text. */
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
