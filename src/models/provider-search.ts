import { anthropic } from "@ai-sdk/anthropic";
import { google } from "@ai-sdk/google";
import { openai } from "@ai-sdk/openai";
import type { SharedV4ProviderOptions } from "@ai-sdk/provider";
import type { Tool } from "ai";
import type { WebSearchSettings } from "#domain/server-side-tool.ts";

/** A provider's own web search, as one call of a model takes it. */
export interface OwnSearch {
  tool: Tool;
  callOptions?: SharedV4ProviderOptions;
}

/** Sets up a provider's own search for a model; a sentence where it has none, or not with these settings. */
export type ProviderSearch = (model: string, settings: WebSearchSettings) => OwnSearch | string;

const fewSearches = 5;

/** The search of each provider that has one. */
export const providerSearch = { anthropic: anthropicSearch, openai: openaiSearch, google: googleSearch };

function anthropicSearch(_model: string, settings: WebSearchSettings): OwnSearch {
  const {
    max_uses: maxUses = fewSearches,
    allowed_domains: allowedDomains,
    blocked_domains: blockedDomains,
  } = settings;
  // Later versions let the model run code over what was found, at the provider, where nobody sees it.
  return {
    tool: anthropic.tools.webSearch_20250305({
      maxUses,
      ...(allowedDomains && { allowedDomains }),
      ...(blockedDomains && { blockedDomains }),
    }),
  };
}

function openaiSearch(_model: string, settings: WebSearchSettings): OwnSearch {
  const {
    max_uses: maxToolCalls = fewSearches,
    allowed_domains: allowedDomains,
    blocked_domains: blockedDomains,
  } = settings;
  const filters = { ...(allowedDomains && { allowedDomains }), ...(blockedDomains && { blockedDomains }) };
  return { tool: openai.tools.webSearch({ filters }), callOptions: { openai: { maxToolCalls } } };
}

function googleSearch(model: string, settings: WebSearchSettings): OwnSearch | string {
  if (/^gemini-[12]\b/.test(model)) return `${model} cannot search the web beside other tools: Gemini 3 and later can.`;
  const given = Object.keys(settings);
  if (given.length > 0) return `Google's search takes no ${given.join(" and no ")}.`;
  return { tool: google.tools.googleSearch({}) };
}
