import type { SafeFetchOptions } from "./safe-fetch.ts";

/** Where searches go. Keys belong to the deployment, never to a worker's file. */
export type SearchProvider =
  | { provider: "searxng"; url: string }
  | { provider: "brave" | "tavily" | "exa"; apiKey: string; url?: string };

/** What a deployment lends its workers of the web. */
export interface WebAccess extends SafeFetchOptions {
  search?: SearchProvider;
}
