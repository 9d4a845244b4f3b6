import type { ContentPart, ToolSet } from "ai";
import { z } from "zod";

const text = z.string().min(1);
/** What providers say of a search: Anthropic in the call, OpenAI in the result, Google a list in the call. */
const Search = z.union([
  z.object({ action: z.object({ queries: z.array(text).min(1) }) }).transform(({ action }) => action.queries),
  z.object({ action: z.object({ query: text }) }).transform(({ action }) => [action.query]),
  z.object({ action: z.object({ url: text }) }).transform(({ action }) => [action.url]),
  z.object({ queries: z.array(text).min(1) }).transform(({ queries }) => queries),
  z.object({ query: text }).transform(({ query }) => [query]),
]);
const longestShown = 200;

/** What the provider looked up by itself in one answer: a query or an address for each time, in its order. */
export function readSearches(parts: readonly ContentPart<ToolSet>[]): string[] {
  return parts.flatMap((part) => {
    if (part.type === "tool-call" && part.providerExecuted) return searchesIn(part.input);
    if (part.type === "tool-result" && part.providerExecuted) return searchesIn(part.output);
    return [];
  });
}

function searchesIn(said: unknown): string[] {
  const words = Search.safeParse(said).data ?? [];
  return words.map((word) => word.replace(/\s+/g, " ").trim().slice(0, longestShown));
}
