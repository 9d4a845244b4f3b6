import { once } from "node:events";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { ModelMessage } from "ai";
import { afterEach, describe, expect, onTestFinished, test, vi } from "vitest";
import { z } from "zod";
import type { NamedTool } from "#domain/tool.ts";
import type { CallTimeouts } from "#models/call-timeouts.ts";
import { createModels } from "#models/create-models.ts";
import { type ModelAnswer, ModelFailureError, type ModelRequest, type Models } from "#models/models.ts";
import { type ModelReply, type ModelServer, startModelServer, turnOf } from "#playground/model/model-server.ts";

const open: ModelServer[] = [];
afterEach(() => Promise.all(open.splice(0).map((server) => server.close())));

const execute = vi.fn();
const readFile: NamedTool = {
  name: "read_file",
  description: "Reads a file.",
  inputSchema: z.object({ path: z.string() }),
  execute,
  needsApproval: true,
};

type Script = ModelReply | ((request: { messages: { role: string }[] }) => ModelReply);

function modelsAt(baseUrl: string, { apiKey, ...timeouts }: Partial<CallTimeouts> & { apiKey?: string } = {}): Models {
  const none = { apiKey: undefined, baseUrl: undefined };
  return createModels(
    { default: undefined, anthropic: none, openai: none, google: none, compatible: { apiKey, baseUrl } },
    timeouts,
  );
}

function request(changes: Partial<ModelRequest> = {}): ModelRequest {
  return {
    model: "compatible:scripted",
    instructions: "Be brief.",
    messages: [{ role: "user", content: "Hello" }],
    tools: [readFile],
    signal: new AbortController().signal,
    ...changes,
  };
}

/** A scripted model server, and functions that call it. */
async function world(script: Script, settings: Partial<CallTimeouts> & { apiKey?: string } = {}) {
  const server = await startModelServer({ script: typeof script === "function" ? script : () => script });
  open.push(server);
  const models = modelsAt(server.url, settings);
  const ask = (changes: Partial<ModelRequest> = {}): Promise<ModelAnswer> => models.call(request(changes));
  const failure = async (changes: Partial<ModelRequest> = {}): Promise<ModelFailureError> => {
    const error: unknown = await ask(changes).catch((reason: unknown) => reason);
    if (!(error instanceof ModelFailureError)) throw new Error(`No ModelFailureError but ${String(error)}`);
    return error;
  };
  return { server, ask, failure };
}

function resultOf(callId: string, value: string): ModelMessage {
  const output = { type: "text" as const, value };
  return { role: "tool", content: [{ type: "tool-result", toolCallId: callId, toolName: "read_file", output }] };
}

/** A server that sends only what the test writes. */
async function rawServer(answer: (response: ServerResponse) => void): Promise<string> {
  const server = createServer((_, response) => {
    response.writeHead(200, { "content-type": "text/event-stream" });
    answer(response);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => void server.close().closeAllConnections());
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

const chunk = (content: string, finish: string | null) =>
  `data: ${JSON.stringify({ choices: [{ index: 0, delta: { content }, finish_reason: finish }] })}\n\n`;

describe("answer", () => {
  test("an answer streams its text and reports its usage", async () => {
    const { ask, server } = await world({
      text: "A sentence that arrives in several pieces.",
      usage: { inputTokens: 120, outputTokens: 8, cachedInputTokens: 100 },
    });
    const deltas: string[] = [];

    const answer = await ask({ onText: (delta) => deltas.push(delta) });

    expect(deltas.length).toBeGreaterThan(2);
    expect(deltas.join("")).toBe("A sentence that arrives in several pieces.");
    expect(answer).toEqual({
      text: "A sentence that arrives in several pieces.",
      calls: [],
      messages: [
        { role: "assistant", content: [{ type: "text", text: "A sentence that arrives in several pieces." }] },
      ],
      searches: [],
      usage: { inputTokens: 120, outputTokens: 8, cachedInputTokens: 100 },
      cost: undefined,
      finishReason: "stop",
    });
    expect(server.requests[0]?.messages).toEqual([
      { role: "system", content: "Be brief." },
      { role: "user", content: "Hello" },
    ]);
  });

  test("an answer is asked for without half an emoji, which providers refuse", async () => {
    const { ask, server } = await world({ text: "Done." });
    const cut = "👍 and \\ud83d, cut off: 👍".slice(0, -1);

    await ask({ messages: [{ role: "user", content: cut }] });

    expect(server.requests[0]?.messages.at(-1)?.content).toBe("👍 and \\ud83d, cut off: \ufffd");
  });

  test("an answer streams the arguments of its tool calls, each with the call's id and tool", async () => {
    const { ask } = await world({
      calls: [
        { name: "read_file", args: { path: "a" } },
        { name: "read_file", args: { path: "b" } },
      ],
    });
    const inputs: Record<string, string> = {};

    const { calls } = await ask({
      onInput: ({ callId, tool, delta }) => {
        inputs[`${callId} ${tool}`] = (inputs[`${callId} ${tool}`] ?? "") + delta;
      },
    });

    expect(inputs).toEqual(
      Object.fromEntries(calls.map(({ callId, tool, args }) => [`${callId} ${tool}`, JSON.stringify(args)])),
    );
  });

  test("an answer may contain several tool calls, which are not executed", async () => {
    const { ask, server } = await world({
      text: "I will look.",
      calls: [
        { name: "read_file", args: { path: "a" } },
        { name: "read_file", args: { path: "b" } },
      ],
    });

    const answer = await ask();

    expect(answer.calls).toEqual([
      { callId: "call_1_1", tool: "read_file", args: { path: "a" } },
      { callId: "call_1_2", tool: "read_file", args: { path: "b" } },
    ]);
    expect(answer.finishReason).toBe("tool-calls");
    expect(execute).not.toHaveBeenCalled();
    expect(server.requests[0]?.tools).toEqual([
      {
        type: "function",
        function: {
          name: "read_file",
          description: "Reads a file.",
          parameters: expect.objectContaining({ type: "object", required: ["path"] }),
        },
      },
    ]);
  });

  test("an answer is sent back verbatim with the results on the next turn", async () => {
    const { ask, server } = await world(({ messages }) =>
      turnOf(messages) === 0
        ? { reasoning: "I need the file.", calls: [{ name: "read_file", args: { path: "a" } }] }
        : { text: "It says hello." },
    );
    const asked: ModelMessage[] = [{ role: "user", content: "What is in a?" }];

    const first = await ask({ messages: asked });
    // In the form in which it is read from the event log.
    const kept = JSON.parse(JSON.stringify(first.messages)) as ModelMessage[];
    const second = await ask({ messages: [...asked, ...kept, resultOf("call_1_1", "hello")] });

    expect(second.text).toBe("It says hello.");
    expect(server.requests[1]?.messages.slice(2)).toEqual([
      {
        role: "assistant",
        content: null,
        reasoning_content: "I need the file.",
        tool_calls: [{ id: "call_1_1", type: "function", function: { name: "read_file", arguments: '{"path":"a"}' } }],
      },
      { role: "tool", tool_call_id: "call_1_1", content: "hello" },
    ]);
  });

  test("an answer keeps calls of unknown tools and calls with invalid arguments", async () => {
    const { ask } = await world({
      calls: [
        { name: "rm_rf", args: { path: "/" } },
        { name: "read_file", args: { file: 7 } },
        { name: "read_file", args: ["a"] },
      ],
    });

    const answer = await ask();

    expect(answer.calls).toEqual([
      { callId: "call_1_1", tool: "rm_rf", args: { path: "/" } },
      { callId: "call_1_2", tool: "read_file", args: { file: 7 } },
      { callId: "call_1_3", tool: "read_file", args: ["a"] },
    ]);
  });

  test.each([
    ["read_file", '{"path": "a'],
    ["read_file", "path=a"],
    ["no_such_tool", "{]"],
    ["read_file", '{"__proto__": {"path": "a"}}'],
  ])("an answer reports that a call of %s with %j is not valid JSON, and can be sent back", async (name, text) => {
    const { ask, server } = await world(({ messages }) =>
      turnOf(messages) === 0 ? { rawCalls: [{ name, arguments: text }] } : { text: "Sorry." },
    );
    const asked: ModelMessage[] = [{ role: "user", content: "Go" }];

    const answer = await ask({ messages: asked });
    await ask({ messages: [...asked, ...answer.messages, resultOf("call_1_1", "Not readable.")] });

    expect(answer.calls).toEqual([
      { callId: "call_1_1", tool: name, args: text, parseError: expect.stringContaining("JSON") },
    ]);
    expect(server.requests[1]?.messages[2]?.tool_calls?.[0]?.function.arguments).toBe("{}");
  });

  test.each([
    ["nested too deeply", `${"[".repeat(100_000)}${"]".repeat(100_000)}`],
    ["of too many values", `[${"0,".repeat(100_000)}0]`],
  ])("an answer leaves out arguments %s, and reports them", async (_, value) => {
    const { ask } = await world({ rawCalls: [{ name: "read_file", arguments: `{"path":${value}}` }] });

    const { calls } = await ask({ messages: [{ role: "user", content: "Go" }] });

    expect(calls).toMatchObject([{ args: {}, parseError: expect.stringContaining("too many values, or are nested") }]);
  });

  test("missing arguments are an empty object", async () => {
    const { ask } = await world({
      rawCalls: [
        { name: "read_file", arguments: "" },
        { name: "unknown", arguments: "" },
      ],
    });

    const answer = await ask();

    expect(answer.calls.map(({ args, parseError }) => ({ args, parseError }))).toEqual([
      { args: {}, parseError: undefined },
      { args: {}, parseError: undefined },
    ]);
  });

  test("an answer gives new ids to calls with an empty or repeated id", async () => {
    const { ask } = await world({
      calls: [
        { name: "read_file", args: { path: "a" }, id: "" },
        { name: "read_file", args: { path: "b" }, id: "same" },
        { name: "read_file", args: { path: "c" }, id: "same" },
        { name: "read_file", args: { path: "d" }, id: "old" },
      ],
    });
    const old = { type: "tool-call" as const, toolCallId: "old", toolName: "read_file", input: {} };

    const answer = await ask({ messages: [{ role: "assistant", content: [old] }, resultOf("old", "x")] });

    const ids = answer.calls.map(({ callId }) => callId);
    const [message] = answer.messages;
    const sentBack = typeof message?.content === "string" ? [] : (message?.content ?? []);
    expect(new Set([...ids, "old", ""]).size).toBe(6);
    expect(answer.calls.map(({ args }) => args)).toEqual([{ path: "a" }, { path: "b" }, { path: "c" }, { path: "d" }]);
    expect(sentBack.map((part) => (part.type === "tool-call" ? part.toolCallId : ""))).toEqual(ids);
  });

  test("an answer contains only tool names that providers accept", async () => {
    const { ask } = await world({ calls: [{ name: "functions.read file", args: {} }] });

    const answer = await ask();

    expect(answer.calls[0]?.tool).toBe("functions_read_file");
    expect(answer.messages).toMatchObject([{ content: [{ toolName: "functions_read_file" }] }]);
  });

  test("an answer of a server without usage counts has its tokens estimated", async () => {
    const { ask } = await world({ text: "Yes.", usage: { inputTokens: 0, outputTokens: 0 } });

    const { usage } = await ask({ messages: [{ role: "user", content: "word ".repeat(1_000) }] });

    expect(usage.inputTokens).toBeGreaterThan(700);
    expect(usage.outputTokens).toBeGreaterThan(0);
  });
});

describe("server", () => {
  test("a server is sent a key only if one is set", async () => {
    const seen: unknown[] = [];
    const baseUrl = await rawServer((response) => {
      seen.push(response.req.headers.authorization);
      response.end(chunk("Done.", "stop"));
    });

    await modelsAt(baseUrl).call(request());
    await modelsAt(baseUrl, { apiKey: "secret" }).call(request());

    expect(seen).toEqual([undefined, "Bearer secret"]);
  });

  test("a server that closes a connection which it had kept open is called again on a new one", async () => {
    let requests = 0;
    const baseUrl = await rawServer((response) => {
      requests += 1;
      if (requests === 2) return response.socket?.destroy();
      return response.end(chunk("Done.", "stop"));
    });

    for (const expected of [1, 3]) {
      expect(await modelsAt(baseUrl).call(request())).toMatchObject({ text: "Done." });
      expect(requests).toBe(expected);
    }
  });

  test("a server that closes a new connection without an answer is not called again", async () => {
    let requests = 0;
    const baseUrl = await rawServer((response) => {
      requests += 1;
      response.socket?.destroy();
    });

    await expect(modelsAt(baseUrl).call(request())).rejects.toThrow("closed the connection");
    expect(requests).toBe(1);
  });
});

describe("a failure", () => {
  test("status 429 is retryable after the given seconds", async () => {
    const { failure } = await world({ status: 429, retryAfter: 7, message: "Slow down" });

    expect(await failure()).toMatchObject({
      message: "The model server is rate-limiting requests: Slow down.",
      retryable: true,
      retryAfterMs: 7_000,
    });
  });

  test("status 429 is retryable at the given date", async () => {
    const { failure } = await world({ status: 429, retryAfter: new Date(Date.now() + 90_000).toUTCString() });

    const { retryable, retryAfterMs } = await failure();

    expect(retryable).toBe(true);
    expect(retryAfterMs).toBeGreaterThan(60_000);
    expect(retryAfterMs).toBeLessThanOrEqual(91_000);
  });

  test.each([
    [401, "Bad key secret-key-1", "The model server rejected the key. Check OPENAI_COMPATIBLE_API_KEY.", false],
    [
      403,
      "No",
      "The model server refused the request (HTTP 403). Check OPENAI_COMPATIBLE_API_KEY, and whether its account may use compatible:scripted.",
      false,
    ],
    [402, "Pay up", "The model server reports that the account has no credit left: Pay up.", false],
    [
      404,
      "No such model",
      "The model server does not know the model compatible:scripted, or the URL in OPENAI_COMPATIBLE_BASE_URL is wrong.",
      false,
    ],
    [500, "Oops secret-key-1", "The model server failed (HTTP 500): Oops [secret removed].", true],
    [503, "Busy", "The model server is overloaded (HTTP 503).", true],
    [529, "Busy", "The model server is overloaded (HTTP 529).", true],
    [
      400,
      "This model's maximum context length is 8192 tokens.",
      "The conversation is too long for compatible:scripted. Use a model with a larger context, or start again with a smaller task.",
      false,
    ],
    [
      400,
      "Blocked by the content filter",
      "The model server withheld the answer: its content filter refused this conversation.",
      false,
    ],
    [
      400,
      "Ask http://ada:hunter2@proxy.example/path?key=1 instead",
      "The model server rejected the request (HTTP 400): Ask http://proxy.example/path instead.",
      false,
    ],
  ])("HTTP %i with the message %j is explained", async (status, message, sentence, retryable) => {
    const { failure } = await world({ status, message }, { apiKey: "secret-key-1" });

    expect(await failure()).toMatchObject({ message: sentence, retryable, retryAfterMs: undefined });
  });

  test("a failure of an account without credit is not retryable, although its status is 429", async () => {
    const { failure } = await world({ status: 429, code: "insufficient_quota", message: "You exceeded your quota" });

    expect(await failure()).toMatchObject({ retryable: false });
  });

  test("a connection that breaks during the answer is retryable, and the text so far was streamed", async () => {
    const { failure } = await world({ dropAfterBytes: 500, text: "word ".repeat(100) });
    const deltas: string[] = [];

    const error = await failure({ onText: (delta) => deltas.push(delta) });

    expect(error).toMatchObject({
      message: "The model server closed the connection before the end of its answer.",
      retryable: true,
    });
    expect(deltas.join("")).toMatch(/^word /);
  });

  test("an unreachable server is retryable and named with its host", async () => {
    const { failure, server } = await world({ text: "never" });
    await server.close();

    const error = await failure();

    expect(error.retryable).toBe(true);
    expect(error.message).toMatch(/^The model server cannot be reached: 127\.0\.0\.1:\d+ refused the connection\./);
  });

  test("an empty answer is retryable", async () => {
    const { failure } = await world({ text: " \n", usage: { inputTokens: 100, outputTokens: 7 } });

    expect(await failure()).toMatchObject({
      message: "The model server gave an empty answer.",
      retryable: true,
      used: { usage: { inputTokens: 100, outputTokens: 7 } },
    });
  });

  test("an answer that the content filter ended is not retryable", async () => {
    const { failure } = await world({ text: "I would", finishReason: "content_filter" });

    expect(await failure()).toMatchObject({ retryable: false, message: expect.stringContaining("content filter") });
  });
});

describe("timeout or limit", () => {
  test("a timeout or limit ends the call if the answer does not begin", async () => {
    const { failure } = await world({ hang: true }, { firstMs: 50 });

    expect(await failure()).toMatchObject({
      message: "The model server did not begin to answer within 0.05 seconds.",
      retryable: true,
    });
  });

  test("a timeout or limit ends the call if the answer stops", async () => {
    const { failure } = await world({ hang: true, text: "Well, " }, { idleMs: 50 });

    expect(await failure()).toMatchObject({
      message: "The model server stopped in the middle of its answer for 0.05 seconds.",
      retryable: true,
    });
  });

  test("a timeout or limit ends the call if the answer is too long", async () => {
    const { failure } = await world({ text: "words ".repeat(100_000) });

    expect(await failure()).toMatchObject({
      message: "The model server sent more than 500,000 characters in one answer. The answer was cut off.",
      retryable: false,
    });
  });

  test("a timeout or limit ends the call if the answer takes too long", async () => {
    const { failure } = await world({ hang: true, text: "Well, " }, { totalMs: 60 });

    expect(await failure()).toMatchObject({
      message: "The model server had not finished its answer after 0.06 seconds.",
      retryable: true,
    });
  });
});

describe("an interruption", () => {
  test.each([
    ["before the answer", { hang: true } as const],
    ["during the answer", { hang: true, text: "Well, " } as const],
  ])("%s rejects with the signal's reason", async (_, reply) => {
    const { ask, server } = await world(reply);
    const stop = new AbortController();
    const reason = new Error("ada said stop");

    const began = Promise.withResolvers<void>();
    const answer = ask({ signal: stop.signal, onText: () => began.resolve() });
    await ("text" in reply ? began.promise : expect.poll(() => server.requests.length).toBe(1));
    stop.abort(reason);

    await expect(answer).rejects.toBe(reason);
  });

  test("an interruption before the call sends no request", async () => {
    const { ask, server } = await world({ text: "never" });

    await expect(ask({ signal: AbortSignal.abort("no") })).rejects.toBe("no");
    expect(server.requests).toEqual([]);
  });
});

describe("connection", () => {
  test("the connection is closed when the call is interrupted, so that a local model stops generating", async () => {
    const closed = Promise.withResolvers<void>();
    const baseUrl = await rawServer((response) => {
      response.on("close", closed.resolve);
      response.write(chunk("Well, ", null));
    });
    const stop = new AbortController();

    const answer = modelsAt(baseUrl).call(request({ signal: stop.signal, onText: () => stop.abort("enough") }));

    await expect(answer).rejects.toBe("enough");
    await closed.promise;
  });

  test("the connection stays open as long as any data arrives", async () => {
    const baseUrl = await rawServer((response) => {
      let left = 8;
      const beat = setInterval(() => {
        left -= 1;
        if (left > 0) return response.write(": still thinking\n\n");
        clearInterval(beat);
        return response.end(chunk("Done.", "stop"));
      }, 250);
    });

    const { text } = await modelsAt(baseUrl, { firstMs: 1_000, idleMs: 1_500 }).call(request());

    expect(text).toBe("Done.");
  });
});
