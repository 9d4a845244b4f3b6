import type { ModelMessage } from "ai";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import type { Config } from "#config/config.ts";
import type { NamedTool } from "#domain/tool.ts";
import type { WebSearchSettings } from "#domain/worker.ts";
import { createModels } from "#models/create-models.ts";
import type { ModelRequest } from "#models/models.ts";
import { providerServer } from "../support/provider-server.ts";

const { streaming } = providerServer();

const config: Config["models"] = {
  default: undefined,
  anthropic: { apiKey: "k", baseUrl: undefined },
  openai: { apiKey: "k", baseUrl: undefined },
  google: { apiKey: "k" },
  compatible: { apiKey: undefined, baseUrl: "http://model.test" },
};

function tool(name: string): NamedTool {
  return { name, description: `The tool ${name}.`, inputSchema: z.object({}), execute: () => "" };
}

const question: ModelMessage = { role: "user", content: "What is new in Node?" };

function ask(model: string, settings: WebSearchSettings | undefined, changes: Partial<ModelRequest> = {}) {
  return createModels(config).call({
    model,
    instructions: "Be brief.",
    messages: [question],
    tools: [tool("read_file"), tool("web_search")],
    serverSideTools: [{ name: "web_search", ...(settings && { config: settings }) }],
    signal: new AbortController().signal,
    ...changes,
  });
}

/** The answer as it is read from the log. */
function kept(messages: ModelMessage[]): ModelMessage[] {
  return JSON.parse(JSON.stringify(messages)) as ModelMessage[];
}

describe("Anthropic's web search", () => {
  const url = "https://api.anthropic.com/v1/messages";
  const start = {
    type: "message_start",
    message: {
      id: "msg_1",
      type: "message",
      role: "assistant",
      model: "claude-haiku-4-5",
      content: [],
      stop_reason: null,
      stop_sequence: null,
      usage: { input_tokens: 1_000, output_tokens: 1 },
    },
  };
  const found = [
    {
      type: "web_search_result",
      url: "https://nodejs.org/en/blog",
      title: "Node.js [blog]",
      page_age: "3 days",
      encrypted_content: "sealed",
    },
  ];
  const search = (index: number, content: unknown) => [
    {
      type: "content_block_start",
      index,
      content_block: { type: "server_tool_use", id: `srvtoolu_${index}`, name: "web_search", input: {} },
    },
    { type: "content_block_delta", index, delta: { type: "input_json_delta", partial_json: '{"query":"node 26"}' } },
    { type: "content_block_stop", index },
    {
      type: "content_block_start",
      index: index + 1,
      content_block: { type: "web_search_tool_result", tool_use_id: `srvtoolu_${index}`, content },
    },
    { type: "content_block_stop", index: index + 1 },
  ];
  const says = (index: number, text: string) => [
    { type: "content_block_start", index, content_block: { type: "text", text: "" } },
    { type: "content_block_delta", index, delta: { type: "text_delta", text } },
    { type: "content_block_stop", index },
  ];
  const end = (reason: string) => [
    { type: "message_delta", delta: { stop_reason: reason, stop_sequence: null }, usage: { output_tokens: 100 } },
    { type: "message_stop" },
  ];

  test("Anthropic's web search replaces the tool of the same name, within the worker's limits", async () => {
    const seen = streaming(url, [start, ...says(0, "Hello."), ...end("end_turn")]);

    await ask("anthropic:claude-haiku-4-5", { max_uses: 2, allowed_domains: ["nodejs.org"] });
    await ask("anthropic:claude-haiku-4-5", undefined);

    expect(seen[0]?.body.tools).toEqual([
      expect.objectContaining({ name: "read_file" }),
      { type: "web_search_20250305", name: "web_search", max_uses: 2, allowed_domains: ["nodejs.org"] },
    ]);
    expect(seen[1]?.body.tools).toContainEqual({ type: "web_search_20250305", name: "web_search", max_uses: 5 });
  });

  test("Anthropic's web search is not a tool call, is listed with its sources, and is billed", async () => {
    streaming(url, [start, ...search(0, found), ...says(2, "Node 26 is out."), ...end("end_turn")]);

    const answer = await ask("anthropic:claude-haiku-4-5", undefined);

    expect(answer.calls).toEqual([]);
    expect(answer.searches).toEqual(["node 26"]);
    expect(answer.text).toBe("Node 26 is out.\n\nFound on the web:\n- [Node.js blog](https://nodejs.org/en/blog)");
    expect(answer.cost).toBeCloseTo((1_000 * 1 + 100 * 5) / 1_000_000 + 0.01, 12);
  });

  test("Anthropic's web search is sent back with its results and errors on the next turn", async () => {
    const failed = { type: "web_search_tool_result_error", error_code: "max_uses_exceeded" };
    const seen = streaming(url, [
      start,
      ...search(0, found),
      ...search(2, failed),
      ...says(4, "Node 26 is out."),
      ...end("end_turn"),
    ]);

    const { messages } = await ask("anthropic:claude-haiku-4-5", undefined);
    await ask("anthropic:claude-haiku-4-5", undefined, {
      messages: [question, ...kept(messages), { role: "user", content: "And then?" }],
    });

    expect(seen[1]?.body.messages).toMatchObject([
      { role: "user" },
      {
        role: "assistant",
        content: [
          { type: "server_tool_use", id: "srvtoolu_0", name: "web_search", input: { query: "node 26" } },
          { type: "web_search_tool_result", tool_use_id: "srvtoolu_0", content: found },
          { type: "server_tool_use", id: "srvtoolu_2" },
          { type: "web_search_tool_result", tool_use_id: "srvtoolu_2", content: failed },
          { type: "text", text: "Node 26 is out." },
        ],
      },
      { role: "user" },
    ]);
  });

  test("a paused answer is continued, and becomes one answer", async () => {
    const seen = streaming(
      url,
      [start, ...says(0, "I look it up. "), ...search(1, found), ...end("pause_turn")],
      [start, ...says(0, "Node 26 is out."), ...end("end_turn")],
    );

    const answer = await ask("anthropic:claude-haiku-4-5", undefined);

    expect(seen[1]?.body.messages).toMatchObject([
      { role: "user" },
      {
        role: "assistant",
        content: [{ type: "text" }, { type: "server_tool_use" }, { type: "web_search_tool_result" }],
      },
    ]);
    expect(answer).toMatchObject({
      text: expect.stringContaining("I look it up. Node 26 is out."),
      usage: { inputTokens: 2_000, outputTokens: 200 },
      searches: ["node 26"],
    });
    expect(answer.messages).toHaveLength(1);
  });

  test("Anthropic's web search that pauses again and again ends with the answer so far", async () => {
    const seen = streaming(url, [start, ...says(0, "Wait. "), ...end("pause_turn")]);

    const { text } = await ask("anthropic:claude-haiku-4-5", undefined);

    expect(text).toBe("Wait. Wait. Wait. Wait. ");
    expect(seen).toHaveLength(4);
  });
});

describe("OpenAI's web search", () => {
  const url = "https://api.openai.com/v1/responses";
  const call = { type: "web_search_call", id: "ws_1", status: "completed" };
  const action = { type: "search", query: "node 26", queries: ["node 26"] };
  const thought = { type: "reasoning", id: "rs_1", encrypted_content: "sealed", summary: [] };
  const answerEvents = [
    { type: "response.created", response: { id: "r", created_at: 0, model: "gpt-5-mini" } },
    { type: "response.output_item.added", output_index: 0, item: thought },
    { type: "response.output_item.done", output_index: 0, item: thought },
    { type: "response.output_item.added", output_index: 1, item: { ...call, status: "in_progress" } },
    { type: "response.output_item.done", output_index: 1, item: { ...call, action } },
    { type: "response.output_item.added", output_index: 2, item: { type: "message", id: "m" } },
    { type: "response.output_text.delta", item_id: "m", output_index: 2, content_index: 0, delta: "Node 26 is out." },
    {
      type: "response.output_text.annotation.added",
      item_id: "m",
      output_index: 2,
      content_index: 0,
      annotation_index: 0,
      annotation: {
        type: "url_citation",
        url: "https://nodejs.org/a_(b)",
        title: "News",
        start_index: 0,
        end_index: 4,
      },
    },
    { type: "response.output_item.done", output_index: 2, item: { type: "message", id: "m" } },
    { type: "response.completed", response: { usage: { input_tokens: 1_000, output_tokens: 100 } } },
  ];

  test("OpenAI's web search is limited, listed, cited, billed and sent back, although nothing is stored there", async () => {
    const seen = streaming(url, answerEvents);

    const answer = await ask("openai:gpt-5-mini", { max_uses: 3, blocked_domains: ["spam.example"] });
    await ask("openai:gpt-5-mini", undefined, {
      messages: [question, ...kept(answer.messages), { role: "user", content: "And then?" }],
    });

    expect(seen[0]?.body).toMatchObject({
      store: false,
      max_tool_calls: 3,
      tools: [
        { type: "function", name: "read_file" },
        { type: "web_search", filters: { blocked_domains: ["spam.example"] } },
      ],
    });
    expect(answer).toMatchObject({
      calls: [],
      searches: ["node 26"],
      text: "Node 26 is out.\n\nFound on the web:\n- [News](https://nodejs.org/a_%28b%29)",
    });
    expect(answer.cost).toBeCloseTo((1_000 * 0.25 + 100 * 2) / 1_000_000 + 0.01, 12);
    expect(seen[1]?.body.input).toContainEqual(
      expect.objectContaining({ ...call, action: expect.objectContaining(action) }),
    );
  });
});

describe("Google's web search", () => {
  const url = "https://generativelanguage.googleapis.com/v1beta/models/gemini-3.8-flash:streamGenerateContent";

  test("Google's web search works together with other tools, is listed, billed and sent back signed", async () => {
    const args = { queries: ["node 26", "node 26 news"] };
    const seen = streaming(url, [
      {
        candidates: [
          {
            content: {
              role: "model",
              parts: [
                { toolCall: { toolType: "GOOGLE_SEARCH_WEB", id: "s1", args }, thoughtSignature: "signed" },
                { toolResponse: { toolType: "GOOGLE_SEARCH_WEB", id: "s1", response: { search_suggestions: "" } } },
                { text: "Node 26 is out." },
              ],
            },
            groundingMetadata: { groundingChunks: [{ web: { uri: "https://nodejs.org/", title: "nodejs.org" } }] },
            finishReason: "STOP",
          },
        ],
        usageMetadata: { promptTokenCount: 1_000, candidatesTokenCount: 100, totalTokenCount: 1_100 },
      },
    ]);

    const answer = await ask("google:gemini-3.8-flash", undefined);
    await ask("google:gemini-3.8-flash", undefined, {
      messages: [question, ...kept(answer.messages), { role: "user", content: "And then?" }],
    });

    expect(seen[0]?.body).toMatchObject({
      tools: [{ googleSearch: {} }, { functionDeclarations: [{ name: "read_file" }] }],
      toolConfig: { includeServerSideToolInvocations: true },
    });
    expect(answer).toMatchObject({
      calls: [],
      searches: args.queries,
      text: "Node 26 is out.\n\nFound on the web:\n- [nodejs.org](https://nodejs.org/)",
    });
    expect(answer.cost).toBeCloseTo((1_000 * 1.5 + 100 * 7.5) / 1_000_000 + 0.028, 12);
    expect(seen[1]?.body.contents).toMatchObject([
      { role: "user" },
      {
        role: "model",
        parts: [
          { toolCall: { toolType: "GOOGLE_SEARCH_WEB", args, id: "s1" }, thoughtSignature: "signed" },
          { toolResponse: { toolType: "GOOGLE_SEARCH_WEB", id: "s1" } },
          { text: "Node 26 is out." },
        ],
      },
      { role: "user" },
    ]);
  });
});

test("a server without a web search is sent the tool of that name", async () => {
  const seen = streaming("http://model.test/chat/completions", [
    { id: "c", created: 0, model: "m", choices: [{ index: 0, delta: { content: "Hello." }, finish_reason: "stop" }] },
  ]);

  await ask("compatible:llama", undefined);

  expect(seen[0]?.body.tools).toMatchObject([
    { function: { name: "read_file" } },
    { function: { name: "web_search" } },
  ]);
});

test.each([
  ["compatible:llama", {}, "The model server has no web search."],
  [
    "google:gemini-2.5-flash",
    {},
    "gemini-2.5-flash cannot combine web search with other tools. Use Gemini 3 or later.",
  ],
  ["google:gemini-3.8-flash", { max_uses: 2 }, "Google's search does not support max_uses."],
  ["anthropic:claude-haiku-4-5", { max_uses: 2 }, undefined],
  ["openai:gpt-5", { allowed_domains: ["nodejs.org"] }, undefined],
])("%s with %j: %s", (model, settings, problem) => {
  expect(createModels(config).findToolProblem(model, { name: "web_search", config: settings })).toBe(problem);
});
