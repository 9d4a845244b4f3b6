import { z } from "zod";
import { ToolError } from "#domain/errors.ts";
import type { ToolResult } from "#domain/result.ts";
import type { NamedTool, ToolContext } from "#domain/tool.ts";
import { pluralize } from "#text/pluralize.ts";
import { cleanText, wrapUntrusted } from "#text/untrusted.ts";
import type { ToolServices } from "#toolsets/toolset.ts";
import { containsSecret, createSafeFetch, type SafeRequest, type SearchProvider } from "./safe-fetch.ts";

const input = z.object({
  query: z.string().min(1).max(400),
  numResults: z.number().int().min(1).max(20).default(5),
});
type Input = z.infer<typeof input>;

interface SearchHit {
  title: string;
  url: string;
  snippet: string;
}

const howToConfigure =
  "No web search is configured. The deployment can set SEARXNG_URL (self-hosted, no key), BRAVE_API_KEY, TAVILY_API_KEY or EXA_API_KEY; a worker can use the search of its model provider with server_side_tools: [{ name: web_search }].";
const timeoutMs = 20_000;
const maxSnippetChars = 500;

export function createWebSearchTool(services: ToolServices): NamedTool<Input> {
  return {
    name: "web_search",
    description: "Search the web for titles, URLs and snippets. Use web_fetch to read a page.",
    inputSchema: input,
    needsApproval: false,
    readOnly: true,
    execute: (input, context) => execute(input, context, services),
  };
}

async function execute(
  { query, numResults }: Input,
  { abortSignal }: ToolContext,
  services: ToolServices,
): Promise<ToolResult> {
  const search = services.web?.search;
  if (!search) throw new ToolError(howToConfigure, { code: "UNAVAILABLE", suggestion: "Continue without searching." });
  if (containsSecret(query, services.sanitize)) {
    throw new ToolError("The query contains a secret, so it was not sent.", {
      code: "DENIED",
      type: "security_error",
      suggestion: "Remove the secret from the query.",
    });
  }
  const request = requestFor(search, query, numResults);
  const host = new URL(request.url).host;
  // The request contains the API key, so a redirect must not lead to another host.
  const forbids = (url: URL) => (url.host === host ? undefined : "Search requests are not redirected to other hosts.");
  const { status, body } = await createSafeFetch(services.web, { credentials: true })({
    ...request,
    timeoutMs,
    signal: abortSignal,
    forbids,
  });
  if (status !== 200) {
    throw new ToolError(`The search provider (${search.provider}) responded with status ${status}.`, {
      code: "EXECUTION_ERROR",
      suggestion: "Try again later, or continue without searching.",
    });
  }
  return searchResult(query, search.provider, readResults(body.toString("utf8"), search.provider).slice(0, numResults));
}

function requestFor(
  search: SearchProvider,
  query: string,
  count: number,
): Pick<SafeRequest, "url" | "method" | "headers" | "body"> {
  const json = { "content-type": "application/json", accept: "application/json" };
  switch (search.provider) {
    case "searxng": {
      const url = new URL("search", search.url.endsWith("/") ? search.url : `${search.url}/`);
      url.search = new URLSearchParams({ q: query, format: "json" }).toString();
      return { url: url.href, method: "GET", headers: { accept: "application/json" } };
    }
    case "brave": {
      const url = new URL(search.url ?? "https://api.search.brave.com/res/v1/web/search");
      url.search = new URLSearchParams({ q: query, count: String(count) }).toString();
      return {
        url: url.href,
        method: "GET",
        headers: { accept: "application/json", "x-subscription-token": search.apiKey },
      };
    }
    case "tavily":
      return {
        url: search.url ?? "https://api.tavily.com/search",
        method: "POST",
        headers: { ...json, authorization: `Bearer ${search.apiKey}` },
        body: JSON.stringify({ query, max_results: count }),
      };
    case "exa":
      return {
        url: search.url ?? "https://api.exa.ai/search",
        method: "POST",
        headers: { ...json, "x-api-key": search.apiKey },
        body: JSON.stringify({ query, numResults: count, contents: { text: { maxCharacters: maxSnippetChars } } }),
      };
  }
}

const text = z
  .string()
  .nullish()
  .transform((value) => value ?? "");
const item = z.object({ title: text, url: z.string(), content: text, description: text, text });
const items = z.array(z.unknown()).transform((list) => list.flatMap((entry) => item.safeParse(entry).data ?? []));
const SearchResponse = z.union([
  z.object({ web: z.object({ results: items }) }).transform(({ web }) => web.results),
  z.object({ results: items }).transform(({ results }) => results),
  // Brave omits `web` if there are no results.
  z.object({ type: z.literal("search") }).transform(() => []),
]);

function readResults(body: string, provider: string): SearchHit[] {
  let response: unknown;
  try {
    response = JSON.parse(body);
  } catch (error) {
    throw new ToolError(`The search provider (${provider}) did not respond with JSON.`, {
      code: "EXECUTION_ERROR",
      suggestion:
        provider === "searxng"
          ? "Its settings must include `formats: [html, json]`. Continue without searching."
          : "Try again later, or continue without searching.",
      cause: error,
    });
  }
  const parsed = SearchResponse.safeParse(response);
  if (!parsed.success) {
    throw new ToolError(`The response of the search provider (${provider}) has an unknown format.`, {
      code: "EXECUTION_ERROR",
      suggestion: "Continue without searching.",
    });
  }
  return parsed.data
    .filter(({ url }) => /^https?:\/\//.test(url))
    .map(({ title, url, content, description, text: body }) => ({
      title: oneLine(title),
      url: url.slice(0, 2_000),
      snippet: oneLine(content || description || body).slice(0, maxSnippetChars),
    }));
}

function oneLine(text: string): string {
  return cleanText(text.replace(/<\/?(strong|b|em)>/g, ""))
    .text.replace(/\s+/g, " ")
    .trim();
}

function searchResult(query: string, provider: string, results: SearchHit[]): ToolResult {
  const list = results.map(({ title, url, snippet }, at) => `${at + 1}. ${title}\n   ${url}\n   ${snippet}`).join("\n");
  return {
    llmContent:
      results.length === 0 ? `No results for "${query}".` : wrapUntrusted(list, `a web search by ${provider}`),
    value: {
      kind: "web.results",
      data: { results },
      summary: `${pluralize(results.length, "result")} for "${query}"`,
      preview: list.slice(0, 600),
      display: { preferredView: "table" },
    },
  };
}
