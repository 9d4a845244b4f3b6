import type { SafeFetchOptions } from "./safe-fetch.ts";

/** The search provider. Keys come from the deployment, never from a worker file. */
export type SearchProvider =
  | { provider: "searxng"; url: string }
  | { provider: "brave" | "tavily" | "exa"; apiKey: string; url?: string };

/** A deployment's settings for web access. */
export interface WebAccess extends SafeFetchOptions {
  search?: SearchProvider;
}
