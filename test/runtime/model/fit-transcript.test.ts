import type { ModelMessage } from "ai";
import { expect, test } from "vitest";
import { fitTranscript, sizeOf } from "#runtime/model/transcript.ts";

const message = (text: string): ModelMessage => ({ role: "user", content: text });
const result = (value: string): ModelMessage => ({
  role: "tool",
  content: [{ type: "tool-result", toolCallId: "a", toolName: "read_file", output: { type: "text", value } }],
});
const textOf = (count: number) => "some words of a file\n".repeat(count);

function kept(messages: ModelMessage[] | undefined): boolean[] {
  return (messages ?? []).flatMap((entry) =>
    entry.role === "tool" ? [!JSON.stringify(entry).includes("left out to save space")] : [],
  );
}

test("a conversation that fits is not changed", () => {
  const messages = [message("go"), result(textOf(10)), result(textOf(10))];

  expect(fitTranscript(messages, 10_000)).toEqual(messages);
});

test("the oldest results are omitted first, and the latest only when that is not enough", () => {
  const messages = [message("go"), ...Array.from({ length: 6 }, () => result(textOf(100)))];

  expect(kept(fitTranscript(messages, 3_500))).toEqual([false, false, true, true, true, true]);
  expect(kept(fitTranscript(messages, 1_500))).toEqual([false, false, false, false, true, true]);
});

test("results are omitted in batches, so that most requests only add messages to the one before", () => {
  const messages = [message("go")];
  const maxTokens = 20_000;
  let [previous, changed] = ["", 0];
  for (let step = 0; step < 200; step++) {
    messages.push({ role: "assistant", content: `Step ${step}` }, result(textOf(100)));
    const request = fitTranscript(messages, maxTokens) ?? [];
    const text = request.map((entry) => JSON.stringify(entry)).join("\n");
    if (!text.startsWith(previous)) changed++;
    previous = text;
    expect(request.reduce((sum, entry) => sum + sizeOf(entry), 0)).toBeLessThanOrEqual(maxTokens);
  }

  expect(changed).toBeGreaterThan(5);
  expect(changed).toBeLessThan(30);
});

test("fifty huge results of one answer are omitted as well", () => {
  const content = Array.from({ length: 50 }, () => (result(textOf(4_000)) as { content: object[] }).content).flat();
  const fitted = fitTranscript([message("go"), { role: "tool", content } as ModelMessage], 50_000);

  expect(JSON.stringify(fitted).length).toBeLessThan(20_000);
});

test("messages of people are never omitted, even when they alone are too long", () => {
  expect(fitTranscript([message(textOf(10_000)), result("short")], 5_000)).toBeUndefined();
});

test("results of a provider are omitted like others, together with the search that found them", () => {
  const searched: ModelMessage = {
    role: "assistant",
    content: [
      { type: "tool-call", toolCallId: "s", toolName: "web_search", input: { query: "q" }, providerExecuted: true },
      { type: "tool-result", toolCallId: "s", toolName: "web_search", output: { type: "json", value: textOf(4_000) } },
      { type: "text", text: "It says so." },
    ],
  };

  const fitted = fitTranscript([message("go"), searched, message("and then?")], 1_000);

  expect(fitted).toEqual([
    message("go"),
    { role: "assistant", content: [{ type: "text", text: "It says so." }] },
    message("and then?"),
  ]);
});
