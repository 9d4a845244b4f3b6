import type { SharedV4ProviderOptions } from "@ai-sdk/provider";
import {
  type ContentPart,
  type FinishReason,
  type LanguageModelUsage,
  type ModelMessage,
  experimental_streamLanguageModelCall as streamLanguageModelCall,
  type ToolSet,
} from "ai";
import type { Config } from "#config/config.ts";
import type { TokenUsage } from "#domain/run.ts";
import type { ServerSideTool } from "#domain/server-side-tool.ts";
import { closestMatch } from "#text/closest-match.ts";
import { estimateTokens } from "#text/estimate-tokens.ts";
import { type CallTimeouts, type CallWatch, watchCall } from "./call-timeouts.ts";
import { explainFailure } from "./explain-failure.ts";
import { guardedFetch } from "./guarded-fetch.ts";
import { type ModelAnswer, ModelFailure, type ModelRequest, type Models } from "./models.ts";
import { offerTools } from "./offer-tools.ts";
import { parseModelName } from "./parse-model-name.ts";
import { costOf } from "./prices.ts";
import type { OwnSearch } from "./provider-search.ts";
import { type Provider, providers } from "./providers.ts";
import { callIdsIn, readAnswer } from "./read-answer.ts";

const defaultTimeouts: CallTimeouts = { firstMs: 5 * 60_000, idleMs: 2 * 60_000, totalMs: 30 * 60_000 };

/** Characters of one answer, thoughts and arguments included: several times what any model says, and no end of money. */
const longestAnswer = 500_000;

/** A provider that pauses more often in one answer is left with what it has said. */
const mostPauses = 3;

/** Everything the provider sent in one call. */
interface Heard {
  parts: ContentPart<ToolSet>[];
  usage: LanguageModelUsage;
  finishReason: FinishReason;
  rawFinishReason: string | undefined;
}

/** The models the configuration gives a way to. `timeouts` replace the usual ones: 5 minutes to the first sign of an answer, 2 between two, 30 in all. */
export function createModels(config: Config["models"], timeouts: Partial<CallTimeouts> = {}): Models {
  const known = providers(config);
  const limits = { ...defaultTimeouts, ...timeouts };
  const problemWith = (model: string) => findProblem(known, model);

  return {
    defaultModel: config.default,
    findModelProblem: problemWith,
    findToolProblem: (name, tool) => {
      const { provider, model } = parseModelName(name);
      const search = findSearch(known.get(provider), model, tool);
      return typeof search === "string" ? search : undefined;
    },
    async call(request) {
      request.signal.throwIfAborted();
      const provider = known.get(parseModelName(request.model).provider);
      const problem = problemWith(request.model);
      if (!provider || problem) throw new ModelFailure(problem ?? "", { retryable: false });

      const watch = watchCall(request.signal, limits, provider.label);
      try {
        return answerFrom(await unlessAborted(hearOut(request, provider, watch), watch.signal), request, provider);
      } catch (error) {
        throw watch.signal.aborted ? watch.signal.reason : explainFailure(error, provider, request.model);
      } finally {
        watch.stop();
      }
    },
  };
}

function findProblem(known: Map<string, Provider>, name: string): string | undefined {
  const { provider, model } = parseModelName(name);
  const names = [...known.keys()];
  if (!provider || !model)
    return `"${name}" names no model: write provider:model, such as ${names[0]}:claude-haiku-4-5.`;

  const problem = known.get(provider);
  if (problem) return problem.problem && `The model ${name} cannot be used: ${problem.problem}`;

  const near = closestMatch(provider, names);
  const advice = near ? `Did you mean ${near}:${model}?` : `There are ${names.join(", ")}.`;
  return `There is no provider ${provider} for the model ${name}. ${advice}`;
}

/** The provider's own search, set up; a sentence where it has none. */
function findSearch(
  provider: Provider | undefined,
  model: string,
  { config = {} }: ServerSideTool,
): OwnSearch | string {
  return provider?.search?.(model, config) ?? `${provider?.label ?? "The provider"} has no web search of its own.`;
}

/** The promise, or a rejection with the signal's reason as soon as it is aborted, whatever the promise still does. */
function unlessAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    signal.addEventListener("abort", () => reject(signal.reason), { once: true });
    promise.then(resolve, reject);
  });
}

/** One answer to its end: a provider that searches by itself may pause, and goes on when it gets its own words back. */
async function hearOut(request: ModelRequest, provider: Provider, watch: CallWatch): Promise<Heard> {
  let heard = await listen(request, provider, watch);
  for (let pauses = 0; heard.rawFinishReason === "pause_turn" && pauses < mostPauses; pauses += 1) {
    const { messages } = readAnswer(heard.parts, callIdsIn(request.messages));
    const rest = await listen({ ...request, messages: [...request.messages, ...messages] }, provider, watch);
    heard = { ...rest, parts: [...heard.parts, ...rest.parts], usage: addUsage(heard.usage, rest.usage) };
  }
  return heard;
}

function addUsage(one: LanguageModelUsage, other: LanguageModelUsage): LanguageModelUsage {
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

async function listen(request: ModelRequest, provider: Provider, watch: CallWatch): Promise<Heard> {
  const fetch = guardedFetch({ who: provider.label, where: provider.urlVariable, heard: watch.heard });
  const search = ownSearch(request, provider);
  let parts: ContentPart<ToolSet>[] = [];
  const { stream } = await streamLanguageModelCall({
    model: provider.connect(parseModelName(request.model).model, fetch),
    ...promptOf(request, provider, search),
    tools: { ...(await offerTools(request.tools)), ...(search && { web_search: search.tool }) },
    abortSignal: watch.signal,
    // The SDK would fetch the addresses of files in messages itself, from inside our network: leave that to the provider.
    download: async (wanted) => wanted.map(() => null),
    onLanguageModelCallEnd({ content }) {
      parts = [...content];
    },
  });

  let end: Omit<Heard, "parts"> | undefined;
  let said = 0;
  for await (const part of stream) {
    said += lengthOf(part);
    if (said > longestAnswer) throw endless(provider);
    if (watch.signal.aborted) break;
    if (part.type === "error") throw part.error;
    if (part.type === "text-delta") request.onText?.(part.text);
    if (part.type === "model-call-end") end = part;
  }
  if (!end || isCutOff(end)) throw cutOff(provider, end?.rawFinishReason);
  return { parts, usage: end.usage, finishReason: end.finishReason, rawFinishReason: end.rawFinishReason };
}

/** How much of the answer is in a part of the stream. */
function lengthOf(part: object): number {
  const { text, delta } = part as { text?: unknown; delta?: unknown };
  return [text, delta].reduce<number>((sum, piece) => sum + (typeof piece === "string" ? piece.length : 0), 0);
}

function endless({ label }: Provider): ModelFailure {
  const limit = longestAnswer.toLocaleString("en-US");
  // Not tried again: it has cost enough.
  return new ModelFailure(`${label} said more than ${limit} characters in one answer, and was cut off.`, {
    retryable: false,
  });
}

/** The provider's own search, for a worker that wants it from a provider that has it. */
function ownSearch({ model, serverSideTools = [] }: ModelRequest, provider: Provider): OwnSearch | undefined {
  const wanted = serverSideTools.find(({ name }) => name === "web_search");
  const found = wanted && findSearch(provider, parseModelName(model).model, wanted);
  return typeof found === "string" ? undefined : found;
}

function promptOf(
  { instructions, messages }: ModelRequest,
  { callOptions, cacheMark }: Provider,
  search: OwnSearch | undefined,
) {
  const mark = cacheMark && { providerOptions: cacheMark };
  return {
    // Providers refuse an empty instruction.
    ...(instructions.trim() && { instructions: { role: "system" as const, content: instructions, ...mark } }),
    messages: messages.map(
      (message, index): ModelMessage => (index === messages.length - 1 ? { ...message, ...mark } : message),
    ),
    providerOptions: mergeOptions(callOptions, search?.callOptions),
  };
}

function mergeOptions(
  usual: SharedV4ProviderOptions = {},
  further: SharedV4ProviderOptions = {},
): SharedV4ProviderOptions {
  const names = Object.keys({ ...usual, ...further });
  return Object.fromEntries(names.map((name) => [name, { ...usual[name], ...further[name] }]));
}

function isCutOff({ finishReason, rawFinishReason }: Omit<Heard, "parts" | "usage">): boolean {
  if (finishReason === "error" || finishReason === "interrupted") return true;
  return finishReason === "other" && rawFinishReason === undefined;
}

function cutOff({ label }: Provider, reason: string | undefined): ModelFailure {
  const why = reason ? ` (${reason})` : "";
  return new ModelFailure(`${label} broke off its answer before the end${why}.`, { retryable: true });
}

function answerFrom(heard: Heard, request: ModelRequest, provider: Provider): ModelAnswer {
  const { finishReason, parts } = heard;
  if (finishReason === "content-filter") {
    throw new ModelFailure(`${provider.label} withheld the answer: its content filter refused this conversation.`, {
      retryable: false,
    });
  }
  const { text, calls, messages, searches } = readAnswer(parts, callIdsIn(request.messages));
  if (text.trim() === "" && calls.length === 0) {
    const why = finishReason === "length" ? ": it used up its output limit before it said anything" : "";
    throw new ModelFailure(`${provider.label} gave an empty answer${why}.`, { retryable: true });
  }
  const usage = usageOf(heard.usage, request, messages);
  const billed = {
    input: usage.inputTokens,
    cacheRead: usage.cachedInputTokens ?? 0,
    cacheWrite: heard.usage.inputTokenDetails.cacheWriteTokens ?? 0,
    output: usage.outputTokens,
    searches: searches.length,
  };
  return { text, calls, messages, searches, usage, cost: costOf(request.model, billed), finishReason };
}

function usageOf(said: LanguageModelUsage, request: ModelRequest, answer: ModelMessage[]): TokenUsage {
  const cached = said.inputTokenDetails.cacheReadTokens;
  return {
    // Many local servers count nothing, and a run's limit must hold with them too.
    inputTokens: said.inputTokens || estimateTokens(request.instructions + JSON.stringify(request.messages)),
    outputTokens: said.outputTokens || estimateTokens(JSON.stringify(answer)),
    ...(cached === undefined ? {} : { cachedInputTokens: cached }),
  };
}
