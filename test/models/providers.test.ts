import type { ModelMessage } from "ai";
import { HttpResponse, http } from "msw";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import type { Config } from "#config/config.ts";
import type { NamedTool } from "#domain/tool.ts";
import { createModels } from "#models/create-models.ts";
import { ModelFailureError, type ModelRequest } from "#models/models.ts";
import { providerServer } from "../support/provider-server.ts";

const { use, streaming } = providerServer();

const config: Config["models"] = {
  default: undefined,
  anthropic: { apiKey: "anthropic-secret", baseUrl: undefined },
  openai: { apiKey: "openai-secret", baseUrl: undefined },
  google: { apiKey: "google-secret" },
  compatible: { apiKey: undefined, baseUrl: undefined },
};

const readFile: NamedTool = {
  name: "read_file",
  description: "Reads a file.",
  inputSchema: z.object({ path: z.string() }),
  execute: () => {
    throw new Error("executed");
  },
};

function ask(model: string, changes: Partial<ModelRequest> & { config?: Config["models"] } = {}) {
  return createModels(changes.config ?? config).call({
    model,
    instructions: "Be brief.",
    messages: [{ role: "user", content: "Read a" }],
    tools: [readFile],
    signal: new AbortController().signal,
    ...changes,
  });
}

async function failureOf(answer: Promise<unknown>): Promise<ModelFailureError> {
  const error = await answer.catch((reason: unknown) => reason);
  if (!(error instanceof ModelFailureError)) throw new Error(`No ModelFailureError but ${String(error)}`);
  return error;
}

function resultOf(callId: string, value: string, type: "text" | "error-text" = "text"): ModelMessage {
  const output = { type, value };
  return { role: "tool", content: [{ type: "tool-result", toolCallId: callId, toolName: "read_file", output }] };
}

const anthropicUrl = "https://api.anthropic.com/v1/messages";

const anthropicEvents = [
  {
    type: "message_start",
    message: {
      id: "msg_1",
      type: "message",
      role: "assistant",
      model: "claude-haiku-4-5",
      content: [],
      stop_reason: null,
      stop_sequence: null,
      usage: { input_tokens: 100, cache_read_input_tokens: 1_000, cache_creation_input_tokens: 200, output_tokens: 1 },
    },
  },
  { type: "content_block_start", index: 0, content_block: { type: "thinking", thinking: "", signature: "" } },
  { type: "content_block_delta", index: 0, delta: { type: "thinking_delta", thinking: "I need a." } },
  { type: "content_block_delta", index: 0, delta: { type: "signature_delta", signature: "signed" } },
  { type: "content_block_stop", index: 0 },
  { type: "content_block_start", index: 1, content_block: { type: "text", text: "" } },
  { type: "content_block_delta", index: 1, delta: { type: "text_delta", text: "I will read it." } },
  { type: "content_block_stop", index: 1 },
  {
    type: "content_block_start",
    index: 2,
    content_block: { type: "tool_use", id: "toolu_1", name: "read_file", input: {} },
  },
  { type: "content_block_delta", index: 2, delta: { type: "input_json_delta", partial_json: '{"path":' } },
  { type: "content_block_delta", index: 2, delta: { type: "input_json_delta", partial_json: '"a"}' } },
  { type: "content_block_stop", index: 2 },
  { type: "message_delta", delta: { stop_reason: "tool_use", stop_sequence: null }, usage: { output_tokens: 50 } },
  { type: "message_stop" },
];

describe("Anthropic", () => {
  test("Anthropic is sent the tools without execute functions, and marks for its prompt cache", async () => {
    const seen = streaming(anthropicUrl, anthropicEvents);

    await ask("anthropic:claude-haiku-4-5", {
      messages: [
        { role: "user", content: "Hello" },
        { role: "assistant", content: "Yes?" },
        { role: "user", content: "Read a" },
      ],
    });

    const ephemeral = { cache_control: { type: "ephemeral" } };
    expect(seen[0]?.headers.get("x-api-key")).toBe("anthropic-secret");
    expect(seen[0]?.body).toMatchObject({
      model: "claude-haiku-4-5",
      stream: true,
      system: [{ type: "text", text: "Be brief.", ...ephemeral }],
      messages: [
        { role: "user", content: [{ type: "text", text: "Hello" }] },
        { role: "assistant", content: [{ type: "text", text: "Yes?" }] },
        { role: "user", content: [{ type: "text", text: "Read a", ...ephemeral }] },
      ],
      tools: [{ name: "read_file", description: "Reads a file.", input_schema: { type: "object" } }],
    });
    expect(JSON.stringify(seen[0]?.body).split("cache_control").length).toBe(3);
  });

  test("Anthropic answers with a call, signed reasoning, and a cost that considers the cache", async () => {
    streaming(anthropicUrl, anthropicEvents);

    const answer = await ask("anthropic:claude-haiku-4-5");

    expect(answer).toMatchObject({
      text: "I will read it.",
      calls: [{ callId: "toolu_1", tool: "read_file", args: { path: "a" } }],
      usage: { inputTokens: 1_300, cachedInputTokens: 1_000, outputTokens: 50 },
      finishReason: "tool-calls",
    });
    expect(answer.cost).toBeCloseTo((100 * 1 + 1_000 * 0.1 + 200 * 1.25 + 50 * 5) / 1_000_000, 12);
  });

  test("Anthropic is sent its signed reasoning again on the next turn", async () => {
    const seen = streaming(anthropicUrl, anthropicEvents);
    const asked: ModelMessage[] = [{ role: "user", content: "Read a" }];

    const { messages } = await ask("anthropic:claude-haiku-4-5", { messages: asked });
    const kept = JSON.parse(JSON.stringify(messages)) as ModelMessage[];
    await ask("anthropic:claude-haiku-4-5", { messages: [...asked, ...kept, resultOf("toolu_1", "hello")] });

    expect(seen[1]?.body.messages).toMatchObject([
      { role: "user" },
      {
        role: "assistant",
        content: [
          { type: "thinking", thinking: "I need a.", signature: "signed" },
          { type: "text", text: "I will read it." },
          { type: "tool_use", id: "toolu_1", name: "read_file", input: { path: "a" } },
        ],
      },
      {
        role: "user",
        content: [{ type: "tool_result", tool_use_id: "toolu_1", cache_control: { type: "ephemeral" } }],
      },
    ]);
  });

  test("an Anthropic model that ends without a stop reason has sent an incomplete answer", async () => {
    streaming(anthropicUrl, anthropicEvents.slice(0, 7));

    expect(await failureOf(ask("anthropic:claude-haiku-4-5"))).toMatchObject({
      message: "Anthropic sent an incomplete answer.",
      retryable: true,
    });
  });

  test("an Anthropic model that is overloaded during the answer can be retried", async () => {
    const error = { type: "overloaded_error", message: "Overloaded" };
    streaming(anthropicUrl, [...anthropicEvents.slice(0, 7), { type: "error", error }]);

    expect(await failureOf(ask("anthropic:claude-haiku-4-5"))).toMatchObject({
      message: expect.stringMatching(/^Anthropic is overloaded/),
      retryable: true,
    });
  });

  test("an Anthropic model that refuses to answer is not retryable", async () => {
    const refusal = { type: "message_delta", delta: { stop_reason: "refusal" }, usage: { output_tokens: 0 } };
    streaming(anthropicUrl, [...anthropicEvents.slice(0, 1), refusal, { type: "message_stop" }]);

    expect(await failureOf(ask("anthropic:claude-haiku-4-5"))).toMatchObject({
      message: "Anthropic withheld the answer: its content filter refused this conversation.",
      retryable: false,
    });
  });

  test.each([
    [401, "authentication_error", "invalid x-api-key", "Anthropic rejected the key. Check ANTHROPIC_API_KEY.", false],
    [404, "not_found_error", "model: x", "Anthropic does not know the model anthropic:claude-haiku-4-5.", false],
    [
      400,
      "invalid_request_error",
      "Your credit balance is too low to access the Anthropic API.",
      "Anthropic reports that the account has no credit left: Your credit balance is too low to access the Anthropic API.",
      false,
    ],
    [
      400,
      "invalid_request_error",
      "prompt is too long: 210000 tokens > 200000 maximum",
      "The conversation is too long for anthropic:claude-haiku-4-5. Use a model with a larger context, or start again with a smaller task.",
      false,
    ],
    [529, "overloaded_error", "Overloaded", "Anthropic is overloaded (HTTP 529).", true],
  ])("%i %s: %s", async (status, type, message, sentence, retryable) => {
    use(http.post(anthropicUrl, () => HttpResponse.json({ type: "error", error: { type, message } }, { status })));

    expect(await failureOf(ask("anthropic:claude-haiku-4-5"))).toMatchObject({ message: sentence, retryable });
  });

  test("Anthropic may give its delay in milliseconds", async () => {
    use(
      http.post(anthropicUrl, () =>
        HttpResponse.json(
          { type: "error", error: { type: "rate_limit_error", message: "Slow down" } },
          { status: 429, headers: { "retry-after-ms": "1234" } },
        ),
      ),
    );

    expect(await failureOf(ask("anthropic:claude-haiku-4-5"))).toMatchObject({ retryable: true, retryAfterMs: 1_234 });
  });

  test("Anthropic may have a URL without a version", async () => {
    const seen = streaming("http://proxy.test/v1/messages", anthropicEvents);
    const proxied = { ...config, anthropic: { apiKey: "k", baseUrl: "http://proxy.test" } };

    await ask("anthropic:claude-haiku-4-5", { config: proxied });

    expect(seen.length).toBe(1);
  });

  test("Anthropic cannot redirect requests, so the key is sent nowhere else", async () => {
    use(
      http.post(
        anthropicUrl,
        () => new HttpResponse(null, { status: 307, headers: { location: "https://evil.test/v1/messages" } }),
      ),
    );

    expect(await failureOf(ask("anthropic:claude-haiku-4-5"))).toMatchObject({
      message: "Anthropic answered with a redirect to evil.test, which is not followed.",
      retryable: false,
    });
  });
});

describe("OpenAI", () => {
  test("OpenAI is called through its own API, without storing anything there", async () => {
    const seen = streaming("https://api.openai.com/v1/responses", [
      { type: "response.created", response: { id: "r", created_at: 0, model: "gpt-5-mini" } },
      { type: "response.output_item.added", output_index: 0, item: { type: "message", id: "m" } },
      { type: "response.output_text.delta", item_id: "m", output_index: 0, content_index: 0, delta: "Hello." },
      { type: "response.output_item.done", output_index: 0, item: { type: "message", id: "m" } },
      {
        type: "response.completed",
        response: {
          usage: { input_tokens: 1_000, input_tokens_details: { cached_tokens: 400 }, output_tokens: 100 },
        },
      },
    ]);

    const answer = await ask("openai:gpt-5-mini");

    expect(seen[0]?.headers.get("authorization")).toBe("Bearer openai-secret");
    expect(seen[0]?.body).toMatchObject({
      model: "gpt-5-mini",
      store: false,
      tools: [{ type: "function", name: "read_file" }],
    });
    expect(answer).toMatchObject({ text: "Hello.", finishReason: "stop", usage: { cachedInputTokens: 400 } });
    expect(answer.cost).toBeCloseTo((600 * 0.25 + 400 * 0.025 + 100 * 2) / 1_000_000, 12);
  });

  test("OpenAI at another URL is called through chat completions", async () => {
    const seen = streaming("http://proxy.test/v1/chat/completions", [
      { id: "c", created: 0, model: "m", choices: [{ index: 0, delta: { content: "Hello." }, finish_reason: "stop" }] },
    ]);
    const proxied = { ...config, openai: { apiKey: "k", baseUrl: "http://proxy.test/v1" } };

    const toolCall = { type: "tool-call" as const, toolCallId: "1", toolName: "read_file", input: { path: "a" } };
    const text = "Error: There is no a.\nCall glob.";
    const messages: ModelMessage[] = [
      { role: "user", content: "Read a" },
      { role: "assistant", content: [toolCall] },
      resultOf("1", text, "error-text"),
    ];

    const answer = await ask("openai:some-model", { config: proxied, messages });

    expect(answer).toMatchObject({ text: "Hello.", cost: undefined });
    expect(seen[0]?.body).not.toHaveProperty("store");
    // Lines are not escaped, as the package would do with an error.
    expect(seen[0]?.body).toMatchObject({ messages: [{}, {}, {}, { role: "tool", content: text }] });
  });

  test("an OpenAI model whose connection ends without a finish reason has sent an incomplete answer", async () => {
    streaming("http://proxy.test/v1/chat/completions", [
      { id: "c", created: 0, model: "m", choices: [{ index: 0, delta: { content: "Hel" } }] },
    ]);
    const proxied = { ...config, openai: { apiKey: "k", baseUrl: "http://proxy.test/v1" } };

    expect(await failureOf(ask("openai:some-model", { config: proxied }))).toMatchObject({
      message: "OpenAI sent an incomplete answer.",
      retryable: true,
    });
  });
});

describe("Google", () => {
  const url = "https://generativelanguage.googleapis.com/v1beta/models/gemini-2.5-flash:streamGenerateContent";

  test("Google is sent the tools, and its signed call again", async () => {
    const call = { name: "read_file", args: { path: "a" } };
    const seen = streaming(url, [
      {
        candidates: [
          {
            content: { role: "model", parts: [{ functionCall: call, thoughtSignature: "signed" }] },
            finishReason: "STOP",
          },
        ],
        usageMetadata: { promptTokenCount: 100, candidatesTokenCount: 10, totalTokenCount: 110 },
      },
    ]);
    const asked: ModelMessage[] = [{ role: "user", content: "Read a" }];

    const answer = await ask("google:gemini-2.5-flash", { messages: asked });
    const callId = answer.calls[0]?.callId ?? "";
    await ask("google:gemini-2.5-flash", { messages: [...asked, ...answer.messages, resultOf(callId, "hello")] });

    expect(answer.calls).toEqual([{ callId: expect.any(String), tool: "read_file", args: { path: "a" } }]);
    expect(answer.cost).toBeCloseTo((100 * 0.3 + 10 * 2.5) / 1_000_000, 12);
    expect(seen[0]?.headers.get("x-goog-api-key")).toBe("google-secret");
    expect(seen[0]?.body).toMatchObject({ tools: [{ functionDeclarations: [{ name: "read_file" }] }] });
    expect(seen[1]?.body.contents).toMatchObject([
      { role: "user" },
      { role: "model", parts: [{ functionCall: call, thoughtSignature: "signed" }] },
      { role: "user", parts: [{ functionResponse: { name: "read_file" } }] },
    ]);
  });

  test.each([
    [
      400,
      { message: "API key not valid. Please pass a valid API key.", status: "INVALID_ARGUMENT" },
      { message: "Google rejected the key. Check GOOGLE_GENERATIVE_AI_API_KEY.", retryable: false },
    ],
    [
      429,
      {
        message: "You exceeded your current quota, please check your plan and billing details.",
        status: "RESOURCE_EXHAUSTED",
        details: [{ "@type": "type.googleapis.com/google.rpc.RetryInfo", retryDelay: "34s" }],
      },
      { retryable: true, retryAfterMs: 34_000 },
    ],
    [
      400,
      { message: "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)." },
      { message: expect.stringContaining("too long"), retryable: false },
    ],
  ])("%i %j", async (status, error, expected) => {
    use(http.post(url, () => HttpResponse.json({ error: { code: status, ...error } }, { status })));

    expect(await failureOf(ask("google:gemini-2.5-flash"))).toMatchObject(expected);
  });
});

describe("model server", () => {
  const local = { ...config, compatible: { apiKey: undefined, baseUrl: "http://model.test" } };

  test("a model server that answers with a web page probably has another URL", async () => {
    use(http.post("http://model.test/chat/completions", () => HttpResponse.html("<h1>Welcome</h1>")));

    expect(await failureOf(ask("compatible:llama", { config: local }))).toMatchObject({
      message:
        "The model server answered with a web page instead of JSON. Check OPENAI_COMPATIBLE_BASE_URL: it should be the root of an API, often ending in /v1.",
      retryable: false,
    });
  });

  test("a model server whose gateway answers with an error page can be retried, and the page is not shown", async () => {
    use(
      http.post("http://model.test/chat/completions", () =>
        HttpResponse.html("<h1>502 Bad Gateway</h1>", { status: 502 }),
      ),
    );

    expect(await failureOf(ask("compatible:llama", { config: local }))).toMatchObject({
      message: expect.stringMatching(/^The model server failed \(HTTP 502\): [^<]*$/),
      retryable: true,
    });
  });

  test("a model server that sends invalid data can be retried", async () => {
    use(
      http.post(
        "http://model.test/chat/completions",
        () => new HttpResponse("data: {nonsense\n\n", { headers: { "content-type": "text/event-stream" } }),
      ),
    );

    expect(await failureOf(ask("compatible:llama", { config: local }))).toMatchObject({
      message: "The model server sent an invalid response.",
      retryable: true,
    });
  });

  test("a model server may report an error inside the stream", async () => {
    streaming("http://model.test/chat/completions", [{ error: { message: "CUDA out of memory", code: 500 } }]);

    expect(await failureOf(ask("compatible:llama", { config: local }))).toMatchObject({
      message: "The model server failed (HTTP 500): CUDA out of memory.",
      retryable: true,
    });
  });

  test("a model server is sent the URL of an image unchanged, without fetching it", async () => {
    const seen = streaming("http://model.test/chat/completions", [
      { id: "c", created: 0, model: "m", choices: [{ index: 0, delta: { content: "Hm." }, finish_reason: "stop" }] },
    ]);
    const data = new URL("http://169.254.169.254/latest/meta-data");
    const content = [{ type: "file" as const, mediaType: "image/png", data }];

    await ask("compatible:llama", { config: local, messages: [{ role: "user", content }] });

    expect(JSON.stringify(seen[0]?.body.messages)).toContain("http://169.254.169.254/latest/meta-data");
  });
});

describe("problem", () => {
  test.each([
    ["anthropic:x", "The model anthropic:x cannot be used: ANTHROPIC_API_KEY is not set."],
    ["openai:x", "The model openai:x cannot be used: OPENAI_API_KEY is not set."],
    ["google:x", "The model google:x cannot be used: GOOGLE_GENERATIVE_AI_API_KEY is not set."],
    [
      "compatible:x",
      "The model compatible:x cannot be used: OPENAI_COMPATIBLE_BASE_URL is not set. Set it to the URL of the model server, such as http://localhost:11434/v1.",
    ],
    ["antropic:x", "Unknown provider antropic in the model name antropic:x. Did you mean anthropic:x?"],
    [
      "openrouter:meta/llama:free",
      "Unknown provider openrouter in the model name openrouter:meta/llama:free. The providers are anthropic, openai, google, compatible.",
    ],
    ["gpt-5", '"gpt-5" is not a model name. Write provider:model, such as anthropic:claude-haiku-4-5.'],
    ["", '"" is not a model name. Write provider:model, such as anthropic:claude-haiku-4-5.'],
    ["openai:", '"openai:" is not a model name. Write provider:model, such as anthropic:claude-haiku-4-5.'],
  ])("a problem with %j is reported before and instead of a call", async (model, sentence) => {
    const nothing = {
      default: undefined,
      anthropic: { apiKey: undefined, baseUrl: undefined },
      openai: { apiKey: undefined, baseUrl: undefined },
      google: { apiKey: undefined },
      compatible: { apiKey: undefined, baseUrl: undefined },
    };

    expect(createModels(nothing).findModelProblem(model)).toBe(sentence);
    expect(await failureOf(ask(model, { config: nothing }))).toMatchObject({ message: sentence, retryable: false });
  });

  test("a problem with a password in a URL does not repeat the password", () => {
    const models = createModels({
      ...config,
      compatible: { apiKey: undefined, baseUrl: "http://ada:hunter2@model.test/v1" },
    });

    const problem = models.findModelProblem("compatible:x");

    expect(problem).toContain("OPENAI_COMPATIBLE_BASE_URL contains a user name or a password");
    expect(problem).not.toContain("hunter2");
  });

  test("a problem is not reported for usable models, and there is no built-in default model", () => {
    const models = createModels(config);

    expect(models.findModelProblem("anthropic:claude-haiku-4-5")).toBeUndefined();
    expect(models.defaultModel).toBeUndefined();
    expect(createModels({ ...config, default: "openai:gpt-5" }).defaultModel).toBe("openai:gpt-5");
  });
});

test("a tool whose input schema has no JSON Schema is named", async () => {
  const tool: NamedTool = {
    name: "odd",
    description: "",
    inputSchema: z.object({ at: z.map(z.string(), z.bigint()) }),
  };

  expect(await failureOf(ask("anthropic:claude-haiku-4-5", { tools: [tool] }))).toMatchObject({
    message: expect.stringMatching(/^The tool odd cannot be used/),
    retryable: false,
  });
});
