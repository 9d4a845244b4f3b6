import { afterEach, expect, test } from "vitest";
import { type ModelServer, type ModelServerOptions, startModelServer, turnOf } from "#playground/model/model-server.ts";

const open: ModelServer[] = [];
afterEach(() => Promise.all(open.splice(0).map((server) => server.close())));

async function serve(script: ModelServerOptions["script"], log?: (line: string) => void): Promise<ModelServer> {
  const server = await startModelServer({ script, ...(log && { log }) });
  open.push(server);
  return server;
}

function ask(server: ModelServer, body: object, path = "/chat/completions"): Promise<Response> {
  return fetch(server.url + path, { method: "POST", body: JSON.stringify(body) });
}

interface Whole {
  choices: [{ message: { role: string; content: string } }];
}

const hello = { model: "scripted", messages: [{ role: "user", content: "Hello" }] };

async function events(response: Response): Promise<unknown[]> {
  const lines = (await response.text()).split("\n\n").filter((line) => line !== "");
  expect(lines.pop()).toBe("data: [DONE]");
  return lines.map((line) => JSON.parse(line.replace(/^data: /, "")));
}

test("the response is one JSON object when no stream is requested", async () => {
  const server = await serve(() => ({ text: "Good morning", calls: [{ name: "look", args: { at: "sky" } }] }));

  const answer = await (await ask(server, hello)).json();

  expect(answer).toMatchObject({
    object: "chat.completion",
    choices: [
      {
        finish_reason: "tool_calls",
        message: {
          role: "assistant",
          content: "Good morning",
          tool_calls: [{ id: "call_1_1", type: "function", function: { name: "look", arguments: '{"at":"sky"}' } }],
        },
      },
    ],
  });
});

test("text and arguments are streamed in pieces, with the usage on request", async () => {
  const server = await serve(() => ({
    text: "A sentence longer than one piece 🙂🙂🙂🙂🙂🙂🙂🙂🙂🙂🙂🙂🙂.",
    calls: [
      { name: "first", args: { path: "a rather long path" } },
      { name: "second", args: {} },
    ],
  }));

  const response = await ask(server, { ...hello, stream: true, stream_options: { include_usage: true } });
  const chunks = (await events(response)) as {
    choices: { delta: { content?: string; tool_calls?: { index: number; function: { arguments: string } }[] } }[];
    usage?: object;
  }[];

  const deltas = chunks.flatMap((chunk) => chunk.choices.map(({ delta }) => delta));
  const texts = deltas.flatMap((delta) => delta.content ?? []);
  const fragments = deltas.flatMap((delta) => delta.tool_calls ?? []);
  expect(texts.length).toBeGreaterThan(2);
  expect(texts.join("")).toBe("A sentence longer than one piece 🙂🙂🙂🙂🙂🙂🙂🙂🙂🙂🙂🙂🙂.");
  const argumentsOf = (index: number) =>
    fragments.flatMap((fragment) => (fragment.index === index ? fragment.function.arguments : "")).join("");
  expect(argumentsOf(0)).toBe('{"path":"a rather long path"}');
  expect(argumentsOf(1)).toBe("{}");
  expect(fragments.length).toBeGreaterThan(4);
  expect(chunks.at(-1)).toMatchObject({ choices: [], usage: { prompt_tokens: expect.any(Number) } });
});

test("a script that counts turns continues correctly after a restart", async () => {
  const script: ModelServerOptions["script"] = ({ messages }) => ({ text: `turn ${turnOf(messages)}` });
  const first = await serve(script);
  const before = (await (await ask(first, hello)).json()) as Whole;
  await first.close();

  const second = await serve(script);
  const messages = [...hello.messages, before.choices[0].message, { role: "user", content: "And?" }];
  const after = (await (await ask(second, { ...hello, messages })).json()) as Whole;

  expect(before.choices[0].message.content).toBe("turn 0");
  expect(after.choices[0].message.content).toBe("turn 1");
});

test("a scripted error is an HTTP error with a retry-after header", async () => {
  const server = await serve(() => ({ status: 429, retryAfter: 7, message: "Slow down" }));

  const response = await ask(server, hello);

  expect(response.status).toBe(429);
  expect(response.headers.get("retry-after")).toBe("7");
  expect(await response.json()).toMatchObject({ error: { message: "Slow down" } });
});

test("a dropped response ends after the given number of bytes", async () => {
  const server = await serve(() => ({ dropAfterBytes: 40 }));

  const response = await ask(server, { ...hello, stream: true });
  const reader = (response.body as ReadableStream<Uint8Array>).getReader();
  const first = await reader.read();

  expect(first.value?.length).toBe(40);
  await expect(reader.read()).rejects.toThrow();
});

test("a hanging response can be aborted, and the server closed", async () => {
  const server = await serve(() => ({ hang: true }));
  const controller = new AbortController();

  const answer = fetch(`${server.url}/chat/completions`, {
    method: "POST",
    body: JSON.stringify(hello),
    signal: controller.signal,
  });
  await expect.poll(() => server.requests.length).toBe(1);
  controller.abort();

  await expect(answer).rejects.toThrow();
});

test("an invalid request is refused with a reason", async () => {
  const server = await serve(() => ({ text: "never" }));

  const nonsense = await fetch(`${server.url}/chat/completions`, { method: "POST", body: "{" });
  const elsewhere = await ask(server, hello, "/embeddings");
  const models = (await (await fetch(`${server.url}/models`)).json()) as { data: object[] };

  expect(nonsense.status).toBe(400);
  expect(elsewhere.status).toBe(404);
  expect(models.data).toMatchObject([{ id: "scripted" }]);
});

test("an error in the script is a 500 with its message, and is logged", async () => {
  const lines: string[] = [];
  const server = await serve(
    () => {
      throw new Error("no line for this");
    },
    (line) => lines.push(line),
  );

  const response = await ask(server, hello);

  expect(response.status).toBe(500);
  expect(await response.json()).toMatchObject({ error: { message: "no line for this" } });
  expect(lines).toEqual(["error: no line for this"]);
});

test("only the latest requests are recorded", async () => {
  const server = await serve(() => ({ text: "yes" }));

  for (let index = 0; index < 55; index += 1) {
    await (await ask(server, { ...hello, model: `model-${index}` })).json();
  }

  expect(server.requests.length).toBe(50);
  expect(server.requests.at(-1)?.model).toBe("model-54");
});
