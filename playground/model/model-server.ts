import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { setImmediate as nextTurn } from "node:timers/promises";
import { LRUCache } from "lru-cache";
import { z } from "zod";
import { messageOf } from "#domain/errors.ts";
import { listen } from "#playground/github/listen.ts";
import { estimateTokens } from "#text/estimate-tokens.ts";

const ChatMessage = z.looseObject({
  role: z.string(),
  content: z.unknown().optional(),
  tool_call_id: z.string().optional(),
  tool_calls: z
    .array(z.looseObject({ id: z.string(), function: z.looseObject({ name: z.string(), arguments: z.string() }) }))
    .optional(),
});

const ChatRequest = z.looseObject({
  model: z.string(),
  messages: z.array(ChatMessage),
  tools: z
    .array(z.looseObject({ function: z.looseObject({ name: z.string(), description: z.string().optional() }) }))
    .default([]),
  stream: z.boolean().default(false),
  stream_options: z.looseObject({ include_usage: z.boolean().optional() }).nullish(),
});
/** A request to the model: the conversation so far and the tools it may call. */
export type ChatRequest = z.infer<typeof ChatRequest>;

interface TextReply {
  text?: string;
  /** Sent as the model's reasoning, before its text. */
  reasoning?: string;
  /** Default: an estimate. */
  usage?: { inputTokens: number; outputTokens: number; cachedInputTokens?: number };
  finishReason?: string;
}

/** A scripted reply: text and tool calls, or one of the failures that real models have. */
export type ModelReply =
  | (TextReply & { calls?: readonly { name: string; args: unknown; id?: string }[] })
  /** Tool calls whose arguments are sent unchanged, valid JSON or not. */
  | (TextReply & { rawCalls: readonly { name: string; arguments: string; id?: string }[] })
  /** An HTTP error; `retryAfter` is the value of the header, in seconds or a date. */
  | { status: number; message?: string; code?: string; retryAfter?: number | string }
  /** The connection breaks after this many bytes of the response body. */
  | { dropAfterBytes: number; text?: string }
  /** Sends its text, if any, and then nothing more. */
  | { hang: true; text?: string };

export interface ModelServer {
  /** The base URL for clients, ending in `/v1`. */
  url: string;
  /** The latest requests, oldest first. */
  readonly requests: readonly ChatRequest[];
  close(): Promise<void>;
}

export interface ModelServerOptions {
  script: (request: ChatRequest) => ModelReply | Promise<ModelReply>;
  log?: (line: string) => void;
}

const maxRecordedRequests = 50;
const maxRequestBytes = 64 * 1024 * 1024;

/** Returns the number of the model's next turn, from 0. Derived from the messages, so that scripts continue after a restart. */
export function turnOf(messages: readonly { role: string }[]): number {
  return messages.filter(({ role }) => role === "assistant").length;
}

/** Starts a server on the loopback address that implements OpenAI's chat completions with scripted replies. */
export async function startModelServer({ script, log = () => {} }: ModelServerOptions): Promise<ModelServer> {
  const requests: ChatRequest[] = [];

  async function chat(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = ChatRequest.safeParse(await readJson(request));
    if (!body.success) return sendError(response, { status: 400, message: z.prettifyError(body.error) });

    requests.push(body.data);
    if (requests.length > maxRecordedRequests) requests.shift();
    const reply = await script(body.data);
    log(`${body.data.model}, turn ${turnOf(body.data.messages) + 1}: ${describeReply(reply)}`);
    await send(response, body.data, reply);
  }

  async function route(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const path = new URL(request.url ?? "/", "http://localhost").pathname;
    if (request.method === "POST" && path === "/v1/chat/completions") return chat(request, response);
    if (request.method === "GET" && path === "/v1/models") {
      return sendJson(response, 200, {
        object: "list",
        data: [{ id: "scripted", object: "model", owned_by: "local" }],
      });
    }
    sendError(response, { status: 404, message: `Unknown request: ${request.method} ${path}` });
  }

  const server = createServer((request, response) => {
    route(request, response).catch((error: unknown) => {
      const message = messageOf(error);
      log(`error: ${message}`);
      if (response.headersSent) response.destroy();
      else sendError(response, { status: 500, message });
    });
  });
  return {
    url: `http://127.0.0.1:${await listen(server, 0)}/v1`,
    requests,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

async function readJson(request: IncomingMessage): Promise<unknown> {
  const pieces: Buffer[] = [];
  let size = 0;
  for await (const piece of request) {
    size += piece.length;
    if (size > maxRequestBytes) throw new Error("The request is too large.");
    pieces.push(piece);
  }
  try {
    return JSON.parse(Buffer.concat(pieces).toString("utf8"));
  } catch {
    return undefined;
  }
}

async function send(response: ServerResponse, request: ChatRequest, reply: ModelReply): Promise<void> {
  if ("status" in reply) return sendError(response, reply);
  if ("hang" in reply) return hang(response, request, reply.text);
  if ("dropAfterBytes" in reply) return drop(response, request, reply);
  if (!request.stream) return sendJson(response, 200, wholeAnswer(request, reply));

  startStream(response);
  for (const event of [...eventsOf(request, reply), "[DONE]"]) {
    response.write(toSse(event));
    // Send one event per turn of the event loop, so that the client receives a stream and not one block.
    await nextTurn();
  }
  response.end();
}

function hang(response: ServerResponse, request: ChatRequest, text: string | undefined): void {
  if (!text) return;
  startStream(response);
  for (const event of deltasOf({ text }).map((delta) => chunk(request, delta))) response.write(toSse(event));
}

async function drop(
  response: ServerResponse,
  request: ChatRequest,
  { dropAfterBytes, text = "This sentence will not arrive completely." }: { dropAfterBytes: number; text?: string },
): Promise<void> {
  startStream(response);
  const whole = Buffer.from(eventsOf(request, { text }).map(toSse).join(""));
  const sent = whole.subarray(0, dropAfterBytes);
  // Flush before destroying the connection, or nothing would arrive.
  await new Promise((resolve) => response.write(sent, resolve));
  response.destroy();
}

function startStream(response: ServerResponse): void {
  response.writeHead(200, { "content-type": "text/event-stream", "cache-control": "no-store" });
}

function sendError(response: ServerResponse, error: Extract<ModelReply, { status: number }>): void {
  const { status, message = "This failure is scripted.", code = null, retryAfter } = error;
  if (retryAfter !== undefined) response.setHeader("retry-after", String(retryAfter));
  sendJson(response, status, { error: { message, type: "scripted_error", param: null, code } });
}

function sendJson(response: ServerResponse, status: number, value: unknown): void {
  response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(value));
}

type StreamedReply = Exclude<ModelReply, { status: number } | { dropAfterBytes: number } | { hang: true }>;

interface ToolCall {
  id: string;
  type: "function";
  function: { name: string; arguments: string };
}

function callsOf(request: ChatRequest, reply: StreamedReply): ToolCall[] {
  const calls =
    "rawCalls" in reply
      ? reply.rawCalls
      : (reply.calls ?? []).map(({ args, ...call }) => ({ ...call, arguments: JSON.stringify(args) }));
  // Named by turn and position, so that the same conversation always gets the same ids.
  const turn = turnOf(request.messages) + 1;
  return calls.map(({ id, name, arguments: text }, index) => ({
    id: id ?? `call_${turn}_${index + 1}`,
    type: "function",
    function: { name, arguments: text },
  }));
}

function finishOf(calls: ToolCall[], { finishReason }: TextReply): string {
  return finishReason ?? (calls.length > 0 ? "tool_calls" : "stop");
}

/** The sizes of messages and tools, which are repeated in each request of a conversation. */
const sizes = new LRUCache<string, number>({ maxSize: 10_000_000, sizeCalculation: (_, text) => text.length });

function sizeOf(part: unknown): number {
  // Images and PDF files are not text: providers count them by their size on the page.
  const text = JSON.stringify(part).replace(/(data:[\w/]+;base64,)[\w+/=]+/g, "$1");
  const size = sizes.get(text) ?? estimateTokens(text);
  sizes.set(text, size);
  return size;
}

function usageOf(request: ChatRequest, calls: ToolCall[], reply: TextReply) {
  const parts = [...request.messages, request.tools ?? []];
  const input = reply.usage?.inputTokens ?? parts.reduce<number>((sum, part) => sum + sizeOf(part), 0);
  const output = reply.usage?.outputTokens ?? estimateTokens(`${reply.text ?? ""}${JSON.stringify(calls)}`);
  return {
    prompt_tokens: input,
    completion_tokens: output,
    total_tokens: input + output,
    prompt_tokens_details: { cached_tokens: reply.usage?.cachedInputTokens ?? 0 },
  };
}

function wholeAnswer(request: ChatRequest, reply: StreamedReply): unknown {
  const calls = callsOf(request, reply);
  const message = {
    role: "assistant",
    content: reply.text ?? null,
    ...(reply.reasoning && { reasoning_content: reply.reasoning }),
    ...(calls.length > 0 && { tool_calls: calls }),
  };
  return {
    ...head(request, "chat.completion"),
    choices: [{ index: 0, message, finish_reason: finishOf(calls, reply) }],
    usage: usageOf(request, calls, reply),
  };
}

/** Returns the events of a streamed answer, without the final `[DONE]`. */
function eventsOf(request: ChatRequest, reply: StreamedReply): unknown[] {
  const calls = callsOf(request, reply);
  const deltas = [{ role: "assistant" }, ...deltasOf(reply), ...calls.flatMap(callDeltas)];
  const events = deltas.map((delta) => chunk(request, delta));
  events.push(chunk(request, {}, finishOf(calls, reply)));
  if (request.stream_options?.include_usage) {
    events.push({ ...head(request, "chat.completion.chunk"), choices: [], usage: usageOf(request, calls, reply) });
  }
  return events;
}

function deltasOf({ reasoning, text }: TextReply): object[] {
  const reasoningDeltas = pieces(reasoning ?? "").map((piece) => ({ reasoning_content: piece }));
  return [...reasoningDeltas, ...pieces(text ?? "").map((piece) => ({ content: piece }))];
}

function callDeltas({ id, type, function: { name, arguments: text } }: ToolCall, index: number): object[] {
  const opening = { tool_calls: [{ index, id, type, function: { name, arguments: "" } }] };
  const rest = pieces(text).map((piece) => ({ tool_calls: [{ index, function: { arguments: piece } }] }));
  return [opening, ...rest];
}

function chunk(request: ChatRequest, delta: object, finish: string | null = null): object {
  return { ...head(request, "chat.completion.chunk"), choices: [{ index: 0, delta, finish_reason: finish }] };
}

function head(request: ChatRequest, object: string) {
  return { id: `chat-${turnOf(request.messages) + 1}`, object, created: 0, model: request.model };
}

function toSse(event: unknown): string {
  return `data: ${typeof event === "string" ? event : JSON.stringify(event)}\n\n`;
}

/** Splits text into pieces of one or two words, or longer ones for a long text; surrogate pairs stay together. */
function pieces(text: string): string[] {
  const length = Math.max(12, Math.ceil(text.length / 1_000));
  return text.match(new RegExp(`.{1,${length}}`, "gsu")) ?? [];
}

function describeReply(reply: ModelReply): string {
  if ("status" in reply) return `HTTP ${reply.status}`;
  if ("hang" in reply) return "no answer";
  if ("dropAfterBytes" in reply) return `a connection dropped after ${reply.dropAfterBytes} bytes`;
  const calls = "rawCalls" in reply ? reply.rawCalls : (reply.calls ?? []);
  const names = calls.map(({ name }) => name).join(", ");
  return names ? `calls ${names}` : `replies with ${(reply.text ?? "").length} characters`;
}
