import { randomUUID } from "node:crypto";
import type { SharedV4ProviderOptions } from "@ai-sdk/provider";
import {
  APICallError,
  type ContentPart,
  type FinishReason,
  type LanguageModelUsage,
  type ModelMessage,
  experimental_streamLanguageModelCall as streamLanguageModelCall,
  type ToolModelMessage,
  type ToolResultPart,
  type ToolSet,
  type UserContent,
  type UserModelMessage,
} from "ai";
import { unlessAborted } from "#domain/async-work.ts";
import type { TokenUsage } from "#domain/run.ts";
import { estimateTokens } from "#text/estimate-tokens.ts";
import { type CallTimeouts, type CallWatch, guardedFetch, watchCall } from "./call-timeouts.ts";
import { explainFailure } from "./explain-failure.ts";
import {
  type ModelAnswer,
  ModelFailureError,
  type ModelRequest,
  type ModelTelemetry,
  parseModelName,
} from "./models.ts";
import { offerTools } from "./offer-tools.ts";
import { costOf } from "./prices.ts";
import { findSearch, type Provider, type ProviderSearch } from "./providers.ts";
import { readAnswer } from "./read-answer.ts";

/** Characters per answer, including reasoning and arguments. Limits the cost; no model needs this many. */
const maxAnswerLength = 500_000;

/** The maximum number of pauses in an answer. After that, the partial answer is used. */
const maxPauses = 3;

/** The complete response of one model call. */
interface ProviderResponse {
  parts: ContentPart<ToolSet>[];
  usage: LanguageModelUsage;
  finishReason: FinishReason;
  rawFinishReason: string | undefined;
}

/** The conditions of every request of a call. */
interface CallContext {
  provider: Provider;
  watch: CallWatch;
  telemetry: ModelTelemetry | undefined;
}

/** Calls a provider's model, and throws a ModelFailureError if there is no complete answer. */
export async function callProvider(
  request: ModelRequest,
  provider: Provider,
  { limits, telemetry }: { limits: CallTimeouts; telemetry: ModelTelemetry | undefined },
): Promise<ModelAnswer> {
  // Modules may have been loaded since the caller checked the signal.
  request.signal.throwIfAborted();
  const watch = watchCall(request.signal, limits, provider.label);
  try {
    const response = await unlessAborted(callWithFiles(request, { provider, watch, telemetry }), watch.signal);
    return toAnswer(response, request, provider);
  } catch (error) {
    throw watch.signal.aborted ? watch.signal.reason : explainFailure(error, provider, request.model);
  } finally {
    watch.stop();
  }
}

/** Sends attached files. A model that refuses them is called again with their names, as are later calls of that model. */
async function callWithFiles(request: ModelRequest, context: CallContext): Promise<ProviderResponse> {
  const { refusedFiles } = context.provider;
  if (!refusedFiles || !request.messages.some(hasFiles)) return callToEnd(request, context);
  const named = { ...request, messages: request.messages.map(nameFiles) };
  if (refusedFiles.has(request.model)) return callToEnd(named, context);
  try {
    return await callToEnd(request, context);
  } catch (error) {
    if (!APICallError.isInstance(error) || !refusalStatuses.has(error.statusCode ?? 0)) throw error;
    const response = await callToEnd(named, context);
    refusedFiles.add(request.model);
    return response;
  }
}

/** The statuses of servers that cannot read a part of a request. */
const refusalStatuses = new Set([400, 413, 415, 422, 501]);

/** Calls a model until its answer is complete. A provider that searches the web may pause, and continues when called again. */
async function callToEnd(request: ModelRequest, context: CallContext): Promise<ProviderResponse> {
  let response = await callOnce(request, context);
  for (let pauses = 0; response.rawFinishReason === "pause_turn" && pauses < maxPauses; pauses += 1) {
    const { messages } = readAnswer(response.parts, request.messages);
    const rest = await callOnce({ ...request, messages: [...request.messages, ...messages] }, context);
    response = { ...rest, parts: [...response.parts, ...rest.parts], usage: sumUsage(response.usage, rest.usage) };
  }
  return response;
}

function sumUsage(one: LanguageModelUsage, other: LanguageModelUsage): LanguageModelUsage {
  const sum = (a: number | undefined, b: number | undefined) => (a === undefined ? b : a + (b ?? 0));
  const details = one.inputTokenDetails;
  return {
    ...other,
    inputTokens: sum(one.inputTokens, other.inputTokens),
    outputTokens: sum(one.outputTokens, other.outputTokens),
    inputTokenDetails: {
      ...other.inputTokenDetails,
      cacheReadTokens: sum(details.cacheReadTokens, other.inputTokenDetails.cacheReadTokens),
      cacheWriteTokens: sum(details.cacheWriteTokens, other.inputTokenDetails.cacheWriteTokens),
    },
  };
}

/** At this level, the SDK reports a call only to the callbacks passed to it, and not to registered integrations. */
async function callOnce(request: ModelRequest, context: CallContext): Promise<ProviderResponse> {
  const callId = randomUUID();
  try {
    return await streamCall(request, { ...context, callId });
  } catch (error) {
    const { provider, telemetry } = context;
    telemetry?.onError({ callId, error: explainFailure(error, provider, request.model) });
    throw error;
  }
}

async function streamCall(
  request: ModelRequest,
  { provider, watch, telemetry, callId }: CallContext & { callId: string },
): Promise<ProviderResponse> {
  const { label, urlVariable } = provider;
  const fetch = guardedFetch({ provider: label, urlVariable, onActivity: watch.recordActivity });
  const search = requestedSearch(request, provider);
  let parts: ContentPart<ToolSet>[] = [];
  const { stream } = await streamLanguageModelCall({
    model: await provider.connect(parseModelName(request.model).model, fetch),
    ...promptOf(request, provider, search),
    tools: { ...(await offerTools(request.tools)), ...(search && { web_search: await search.createTool() }) },
    abortSignal: watch.signal,
    // Otherwise the SDK would download the URLs of files in messages, from inside this network.
    download: async (wanted) => wanted.map(() => null),
    callId,
    ...(telemetry && {
      onLanguageModelCallStart: telemetry.onLanguageModelCallStart,
      executeLanguageModelCallInTelemetryContext: telemetry.executeLanguageModelCall,
    }),
    async onLanguageModelCallEnd(event) {
      parts = [...event.content];
      await telemetry?.onLanguageModelCallEnd(event);
    },
  });

  let end: Omit<ProviderResponse, "parts"> | undefined;
  const inputs = new Map<string, string>();
  let length = 0;
  for await (const part of stream) {
    length += lengthOf(part);
    if (length > maxAnswerLength) throw answerTooLong(provider);
    if (watch.signal.aborted) break;
    if (part.type === "error") throw part.error;
    if (part.type === "text-delta") request.onText?.(part.text);
    if (part.type === "tool-input-start") inputs.set(part.id, part.toolName);
    if (part.type === "tool-input-delta") {
      request.onInput?.({ callId: part.id, tool: inputs.get(part.id) ?? "", delta: part.delta });
    }
    if (part.type === "model-call-end") end = part;
  }
  if (!end || isIncomplete(end)) throw incompleteAnswer(provider, end?.rawFinishReason);
  return { parts, usage: end.usage, finishReason: end.finishReason, rawFinishReason: end.rawFinishReason };
}

/** Counts the characters of the answer in a part of the stream. */
function lengthOf(part: object): number {
  const { text, delta } = part as { text?: unknown; delta?: unknown };
  return [text, delta].reduce<number>((sum, piece) => sum + (typeof piece === "string" ? piece.length : 0), 0);
}

function answerTooLong({ label }: Provider): ModelFailureError {
  const limit = maxAnswerLength.toLocaleString("en-US");
  // Not retryable: the answer has already cost a lot.
  return new ModelFailureError(`${label} sent more than ${limit} characters in one answer. The answer was cut off.`, {
    retryable: false,
  });
}

/** Returns the provider's web search, if the worker asks for it and the provider has one. */
function requestedSearch(
  { model, serverSideTools = [] }: ModelRequest,
  provider: Provider,
): ProviderSearch | undefined {
  const wanted = serverSideTools.find(({ name }) => name === "web_search");
  const found = wanted && findSearch(provider, parseModelName(model).model, wanted);
  return typeof found === "string" ? undefined : found;
}

function promptOf(
  { instructions, messages }: ModelRequest,
  { callOptions, cacheMark, escapesErrors }: Provider,
  search: ProviderSearch | undefined,
) {
  const mark = cacheMark && { providerOptions: cacheMark };
  const sent = escapesErrors ? messages.map(withPlainErrors) : messages;
  return {
    // Providers refuse empty instructions.
    ...(instructions.trim() && { instructions: { role: "system" as const, content: instructions, ...mark } }),
    messages: [...sent.slice(0, -1), ...sent.slice(-1).map((last): ModelMessage => ({ ...last, ...mark }))],
    providerOptions: mergeOptions(callOptions, search?.callOptions),
  };
}

/** Makes the texts of failed calls ordinary results, which are sent as they are. Each text says itself that the call failed. */
function withPlainErrors(message: ModelMessage): ModelMessage {
  // Every request repeats the conversation, so the many messages without such a text are not copied.
  if (message.role !== "tool" || !message.content.some(isErrorText)) return message;
  const content = message.content.map((part) =>
    isErrorText(part) ? { ...part, output: { ...part.output, type: "text" as const } } : part,
  );
  return { ...message, content };
}

type ToolPart = ToolModelMessage["content"][number];
type ErrorText = ToolResultPart & { output: Extract<ToolResultPart["output"], { type: "error-text" }> };

function isErrorText(part: ToolPart): part is ErrorText {
  return part.type === "tool-result" && part.output.type === "error-text";
}

function hasFiles(message: ModelMessage): message is UserModelMessage & { content: Exclude<UserContent, string> } {
  if (message.role !== "user" || typeof message.content === "string") return false;
  return message.content.some((part) => part.type === "file" && !isUrl(part.data));
}

/** Replaces attached files with their names. */
function nameFiles(message: ModelMessage): ModelMessage {
  if (!hasFiles(message)) return message;
  const content = message.content.map((part) => {
    if (part.type !== "file" || isUrl(part.data)) return part;
    const text = `(The attached file ${part.filename ?? "without a name"}, ${part.mediaType}, is left out: this model does not accept it.)`;
    return { type: "text" as const, text };
  });
  return { ...message, content };
}

function isUrl(data: unknown): boolean {
  return data instanceof URL || (typeof data === "string" && /^https?:/.test(data));
}

function mergeOptions(
  base: SharedV4ProviderOptions = {},
  additional: SharedV4ProviderOptions = {},
): SharedV4ProviderOptions {
  const names = Object.keys({ ...base, ...additional });
  return Object.fromEntries(names.map((name) => [name, { ...base[name], ...additional[name] }]));
}

function isIncomplete({ finishReason, rawFinishReason }: Omit<ProviderResponse, "parts" | "usage">): boolean {
  if (finishReason === "error" || finishReason === "interrupted") return true;
  return finishReason === "other" && rawFinishReason === undefined;
}

function incompleteAnswer({ label }: Provider, reason: string | undefined): ModelFailureError {
  return new ModelFailureError(`${label} sent an incomplete answer${reason ? ` (${reason})` : ""}.`, {
    retryable: true,
  });
}

function toAnswer(response: ProviderResponse, request: ModelRequest, provider: Provider): ModelAnswer {
  const { finishReason, parts } = response;
  const { text, calls, messages, searches } = readAnswer(parts, request.messages);
  const usage = toUsage(response.usage, request, messages);
  const billed = {
    input: usage.inputTokens,
    cacheRead: usage.cachedInputTokens ?? 0,
    cacheWrite: response.usage.inputTokenDetails.cacheWriteTokens ?? 0,
    output: usage.outputTokens,
    searches: searches.length,
  };
  const used = { usage, cost: costOf(request.model, billed) };
  if (finishReason === "content-filter") {
    throw new ModelFailureError(
      `${provider.label} withheld the answer: its content filter refused this conversation.`,
      { retryable: false, used },
    );
  }
  if (text.trim() === "" && calls.length === 0) {
    const why = finishReason === "length" ? ": it reached its output limit before it wrote any text" : "";
    throw new ModelFailureError(`${provider.label} gave an empty answer${why}.`, { retryable: true, used });
  }
  return { text, calls, messages, searches, ...used, finishReason };
}

/** Converts the reported usage. Estimates it for the many local servers that report none, since limits also need it. */
function toUsage(reported: LanguageModelUsage, request: ModelRequest, answer: ModelMessage[]): TokenUsage {
  const cached = reported.inputTokenDetails.cacheReadTokens;
  return {
    inputTokens: reported.inputTokens || estimateTokens(request.instructions + JSON.stringify(request.messages)),
    outputTokens: reported.outputTokens || estimateTokens(JSON.stringify(answer)),
    ...(cached === undefined ? {} : { cachedInputTokens: cached }),
  };
}
