import { z } from "zod";
import { ToolError } from "#domain/errors.ts";
import type { ToolResult } from "#domain/result.ts";
import type { NamedTool, ToolContext } from "#domain/tool.ts";
import { cleanText, wrapUntrusted } from "#text/untrusted.ts";
import type { ToolServices } from "#toolsets/toolset.ts";
import { createSafeFetch, type SafeRequest } from "./safe-fetch.ts";
import { carriesSecret } from "./secret-in-request.ts";
import type { SearchProvider } from "./web-access.ts";

const inputSchema = z.object({
  query: z.string().min(1).max(400),
  numResults: z.number().int().min(1).max(20).default(5),
});
type Input = z.infer<typeof inputSchema>;

interface Found {
  title: string;
  url: string;
  snippet: string;
}

const howToConfigure =
  "No web search is configured. A deployment sets one of SEARXNG_URL (self-hosted, no key), BRAVE_API_KEY, TAVILY_API_KEY or EXA_API_KEY; a worker may have its provider's own search with server_side_tools: [{ name: web_search }].";
const timeoutMs = 20_000;
const longestSnippet = 500;

export function createWebSearchTool(services: ToolServices): NamedTool<Input> {
  return {
    name: "web_search",
    description: "Search the web. Gives titles, addresses and snippets; read a page with web_fetch.",
    inputSchema,
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
  if (!search) throw new ToolError(howToConfigure, { code: "UNAVAILABLE" });
  if (carriesSecret(query, services.sanitize)) {
    throw new ToolError("The query carries a secret, so it is not sent.", { code: "DENIED", type: "security_error" });
  }
  const request = requestFor(search, query, numResults);
  const host = new URL(request.url).host;
  // A provider that sends its callers elsewhere would be sent the key there.
  const forbids = (url: URL) => (url.host === host ? undefined : "A search is only asked of its own provider.");
  const { status, body } = await createSafeFetch(services.web, { credentials: true })({
    ...request,
    timeoutMs,
    signal: abortSignal,
    forbids,
  });
  if (status !== 200) {
    throw new ToolError(`The search provider (${search.provider}) answered ${status}.`, { code: "EXECUTION_ERROR" });
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
        body: JSON.stringify({ query, numResults: count, contents: { text: { maxCharacters: longestSnippet } } }),
      };
  }
}

const text = z
  .string()
  .nullish()
  .transform((value) => value ?? "");
const item = z.object({ title: text, url: z.string(), content: text, description: text, text });
const items = z.array(z.unknown()).transform((list) => list.flatMap((entry) => item.safeParse(entry).data ?? []));
const Answer = z.union([
  z.object({ web: z.object({ results: items }) }).transform(({ web }) => web.results),
  z.object({ results: items }).transform(({ results }) => results),
  // Brave leaves `web` out when it finds nothing.
  z.object({ type: z.literal("search") }).transform(() => []),
]);

function readResults(body: string, provider: string): Found[] {
  let answer: unknown;
  try {
    answer = JSON.parse(body);
  } catch (error) {
    const hint = provider === "searxng" ? " Its settings need `formats: [html, json]`." : "";
    throw new ToolError(`The search provider (${provider}) did not answer in JSON.${hint}`, {
      code: "EXECUTION_ERROR",
      cause: error,
    });
  }
  const parsed = Answer.safeParse(answer);
  if (!parsed.success)
    throw new ToolError(`The answer of the search provider (${provider}) cannot be read.`, { code: "EXECUTION_ERROR" });
  return parsed.data
    .filter(({ url }) => /^https?:\/\//.test(url))
    .map(({ title, url, content, description, text: body }) => ({
      title: oneLine(title),
      url: url.slice(0, 2_000),
      snippet: oneLine(content || description || body).slice(0, longestSnippet),
    }));
}

function oneLine(words: string): string {
  return cleanText(words.replace(/<\/?(strong|b|em)>/g, ""))
    .text.replace(/\s+/g, " ")
    .trim();
}

function searchResult(query: string, provider: string, results: Found[]): ToolResult {
  const list = results.map(({ title, url, snippet }, at) => `${at + 1}. ${title}\n   ${url}\n   ${snippet}`).join("\n");
  return {
    llmContent:
      results.length === 0 ? `Nothing found for "${query}".` : wrapUntrusted(list, `a web search by ${provider}`),
    value: {
      kind: "web.results",
      data: { results },
      summary: `${results.length} results for "${query}"`,
      preview: list.slice(0, 600),
      display: { preferredView: "table" },
    },
  };
}
