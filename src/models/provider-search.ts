import type { SharedV4ProviderOptions } from "@ai-sdk/provider";
import type { Tool } from "ai";
import type { WebSearchSettings } from "#domain/worker.ts";

/** A provider's web search for a model call. */
export interface ProviderSearch {
  /** Loads the provider's package and creates the tool. */
  createTool(): Promise<Tool>;
  callOptions?: SharedV4ProviderOptions;
}

/** Sets up a provider's web search for a model. Returns a sentence if the model has none, or none with these settings. */
export type CreateProviderSearch = (model: string, settings: WebSearchSettings) => ProviderSearch | string;

const defaultMaxSearches = 5;

/** The web search of each provider that has one. */
export const providerSearch = { anthropic: anthropicSearch, openai: openaiSearch, google: googleSearch };

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
