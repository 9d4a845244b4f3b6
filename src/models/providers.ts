import type { LanguageModelV4, SharedV4ProviderOptions } from "@ai-sdk/provider";
import type { Tool } from "ai";
import type { Config } from "#config/config.ts";
import type { ServerSideTool, WebSearchSettings } from "#domain/worker.ts";
import type { providerNames } from "./models.ts";

/** A configured model provider. */
export interface Provider {
  /** The name for people. */
  label: string;
  /** The environment variable that holds its key. */
  keyVariable: string;
  /** The environment variable that holds its URL; undefined if the URL is fixed. */
  urlVariable: string | undefined;
  apiKey: string | undefined;
  baseUrl: string;
  /** A sentence that says what to set; undefined if the provider can be used. */
  problem: string | undefined;
  callOptions?: SharedV4ProviderOptions;
  /** Marks a position up to which the provider may cache the prompt. */
  cacheMark?: SharedV4ProviderOptions;
  /** The models that refuse images and PDF files; undefined if none does. Models of other servers are tried. */
  refusedFiles?: Set<string>;
  /** True if the provider's package sends the text of a failed call as JSON, whose escaped lines are hard to read. */
  escapesErrors?: true;
  /** Undefined if the provider has no web search. */
  createSearch?: CreateProviderSearch;
  /** Loads the provider's package and returns a model. */
  connect(model: string, fetch: typeof globalThis.fetch): Promise<LanguageModelV4>;
}

const anthropicUrl = "https://api.anthropic.com/v1";
const openaiUrl = "https://api.openai.com/v1";
const googleUrl = "https://generativelanguage.googleapis.com/v1beta";

/** All providers, by the part of a model's name before the colon. */
export function providers(config: Config["models"]): Map<string, Provider> {
  const all = {
    anthropic: anthropic(config.anthropic),
    openai: openai(config.openai),
    google: google(config.google),
    compatible: compatible(config.compatible),
  } satisfies Record<(typeof providerNames)[number], Provider>;
  return new Map(Object.entries(all));
}

/** Sets up the provider's web search. Returns a sentence if it has none. */
export function findSearch(
  provider: Provider | undefined,
  model: string,
  { config = {} }: ServerSideTool,
): ProviderSearch | string {
  return provider?.createSearch?.(model, config) ?? `${provider?.label ?? "The provider"} has no web search.`;
}

function anthropic({ apiKey, baseUrl }: Config["models"]["anthropic"]): Provider {
  const url = withVersion(baseUrl) ?? anthropicUrl;
  return {
    label: "Anthropic",
    keyVariable: "ANTHROPIC_API_KEY",
    urlVariable: baseUrl && "ANTHROPIC_BASE_URL",
    apiKey,
    baseUrl: url,
    problem: credentialsIn(baseUrl, "ANTHROPIC_BASE_URL") ?? missing(apiKey, "ANTHROPIC_API_KEY"),
    cacheMark: { anthropic: { cacheControl: { type: "ephemeral" } } },
    createSearch: providerSearch.anthropic,
    async connect(model, fetch) {
      const { createAnthropic } = await import("@ai-sdk/anthropic");
      return createAnthropic({ apiKey: apiKey ?? "", baseURL: url, fetch })(model);
    },
  };
}

function openai({ apiKey, baseUrl }: Config["models"]["openai"]): Provider {
  const url = baseUrl ?? openaiUrl;
  const isOpenAI = new URL(url).host === new URL(openaiUrl).host;
  return {
    label: "OpenAI",
    keyVariable: "OPENAI_API_KEY",
    urlVariable: baseUrl && "OPENAI_BASE_URL",
    apiKey,
    baseUrl: url,
    problem: credentialsIn(baseUrl, "OPENAI_BASE_URL") ?? missing(apiKey, "OPENAI_API_KEY"),
    escapesErrors: true,
    // Responses stored at OpenAI expire, and a run may wait for days.
    ...(isOpenAI && {
      callOptions: { openai: { store: false } },
      createSearch: providerSearch.openai,
    }),
    async connect(model, fetch) {
      const { createOpenAI } = await import("@ai-sdk/openai");
      const provider = createOpenAI({ apiKey: apiKey ?? "", baseURL: url, fetch });
      // Compatible servers usually support chat completions, but not the newer API.
      return isOpenAI ? provider(model) : provider.chat(model);
    },
  };
}

function google({ apiKey }: Config["models"]["google"]): Provider {
  return {
    label: "Google",
    keyVariable: "GOOGLE_GENERATIVE_AI_API_KEY",
    urlVariable: undefined,
    apiKey,
    baseUrl: googleUrl,
    problem: missing(apiKey, "GOOGLE_GENERATIVE_AI_API_KEY"),
    createSearch: providerSearch.google,
    async connect(model, fetch) {
      const { createGoogle } = await import("@ai-sdk/google");
      return createGoogle({ apiKey: apiKey ?? "", baseURL: googleUrl, fetch })(model);
    },
  };
}

function compatible({ apiKey, baseUrl }: Config["models"]["compatible"]): Provider {
  return {
    label: "The model server",
    keyVariable: "OPENAI_COMPATIBLE_API_KEY",
    urlVariable: "OPENAI_COMPATIBLE_BASE_URL",
    apiKey,
    baseUrl: baseUrl ?? "",
    problem:
      credentialsIn(baseUrl, "OPENAI_COMPATIBLE_BASE_URL") ??
      (baseUrl
        ? undefined
        : "OPENAI_COMPATIBLE_BASE_URL is not set. Set it to the URL of the model server, such as http://localhost:11434/v1."),
    refusedFiles: new Set(),
    async connect(model, fetch) {
      const { createOpenAICompatible } = await import("@ai-sdk/openai-compatible");
      const options = { name: "compatible", baseURL: baseUrl ?? "", apiKey, includeUsage: true, fetch };
      return createOpenAICompatible(options)(model);
    },
  };
}

function missing(apiKey: string | undefined, variable: string): string | undefined {
  return apiKey ? undefined : `${variable} is not set.`;
}

function credentialsIn(url: string | undefined, variable: string): string | undefined {
  if (!url) return undefined;
  const { username, password } = new URL(url);
  return username || password
    ? `${variable} contains a user name or a password, which is not supported. Set only the URL, and put the secret into the variable for the key.`
    : undefined;
}

// Anthropic's own tools expect this URL without the version, so it is often set that way.
function withVersion(baseUrl: string | undefined): string | undefined {
  if (!baseUrl) return undefined;
  const { pathname } = new URL(baseUrl);
  return pathname === "/" ? `${baseUrl.replace(/\/$/, "")}/v1` : baseUrl;
}

export interface ProviderSearch {
  createTool(): Promise<Tool>;
  callOptions?: SharedV4ProviderOptions;
}

/** Sets up a provider's web search for a model. Returns a sentence if the model has none, or none with these settings. */
type CreateProviderSearch = (model: string, settings: WebSearchSettings) => ProviderSearch | string;

const defaultMaxSearches = 5;

const providerSearch = { anthropic: anthropicSearch, openai: openaiSearch, google: googleSearch };

function anthropicSearch(_model: string, settings: WebSearchSettings): ProviderSearch {
  const {
    max_uses: maxUses = defaultMaxSearches,
    allowed_domains: allowedDomains,
    blocked_domains: blockedDomains,
  } = settings;
  // Later versions let the model run code on the results, which would happen unseen at the provider.
  return {
    async createTool() {
      const { anthropic } = await import("@ai-sdk/anthropic");
      return anthropic.tools.webSearch_20250305({
        maxUses,
        ...(allowedDomains && { allowedDomains }),
        ...(blockedDomains && { blockedDomains }),
      });
    },
  };
}

function openaiSearch(_model: string, settings: WebSearchSettings): ProviderSearch {
  const {
    max_uses: maxToolCalls = defaultMaxSearches,
    allowed_domains: allowedDomains,
    blocked_domains: blockedDomains,
  } = settings;
  const filters = { ...(allowedDomains && { allowedDomains }), ...(blockedDomains && { blockedDomains }) };
  return {
    createTool: async () => (await import("@ai-sdk/openai")).openai.tools.webSearch({ filters }),
    callOptions: { openai: { maxToolCalls } },
  };
}

function googleSearch(model: string, settings: WebSearchSettings): ProviderSearch | string {
  if (/^gemini-[12]\b/.test(model)) {
    return `${model} cannot combine web search with other tools. Use Gemini 3 or later.`;
  }
  const given = Object.keys(settings);
  if (given.length > 0) return `Google's search does not support ${given.join(" or ")}.`;
  return { createTool: async () => (await import("@ai-sdk/google")).google.tools.googleSearch({}) };
}
