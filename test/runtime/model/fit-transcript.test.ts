import type { ModelMessage } from "ai";
import { expect, test } from "vitest";
import { fitTranscript } from "#runtime/model/fit-transcript.ts";

const said = (text: string): ModelMessage => ({ role: "user", content: text });
const result = (value: string): ModelMessage => ({
  role: "tool",
  content: [{ type: "tool-result", toolCallId: "a", toolName: "read_file", output: { type: "text", value } }],
});
const words = (count: number) => "some words of a file\n".repeat(count);

function kept(messages: ModelMessage[] | undefined): boolean[] {
  return (messages ?? []).flatMap((message) =>
    message.role === "tool" ? [!JSON.stringify(message).includes("left out to save room")] : [],
  );
}

test("a conversation that fits is not changed", () => {
  const messages = [said("go"), result(words(10)), result(words(10))];

  expect(fitTranscript(messages, 10_000)).toEqual(messages);
});

test("the oldest results are left out first, and the latest only when nothing else helps", () => {
  const messages = [said("go"), ...Array.from({ length: 6 }, () => result(words(100)))];

  expect(kept(fitTranscript(messages, 3_500))).toEqual([false, true, true, true, true, true]);
  expect(kept(fitTranscript(messages, 1_500))).toEqual([false, false, false, false, true, true]);
});

test("fifty huge results of one answer are left out as well", () => {
  const [huge] = [result(words(1))];
  const content = Array.from({ length: 50 }, () => (result(words(4_000)) as { content: object[] }).content).flat();
  const fitted = fitTranscript([said("go"), { ...huge, content } as ModelMessage], 50_000);

  expect(JSON.stringify(fitted).length).toBeLessThan(20_000);
});

test("messages of people are never left out: when they alone are too long, there is no conversation", () => {
  expect(fitTranscript([said(words(10_000)), result("short")], 5_000)).toBeUndefined();
});

test("results of a provider are left out like others, together with the search that found them", () => {
  const searched: ModelMessage = {
    role: "assistant",
    content: [
      { type: "tool-call", toolCallId: "s", toolName: "web_search", input: { query: "q" }, providerExecuted: true },
      { type: "tool-result", toolCallId: "s", toolName: "web_search", output: { type: "json", value: words(4_000) } },
      { type: "text", text: "It says so." },
    ],
  };

  const fitted = fitTranscript([said("go"), searched, said("and then?")], 1_000);

  expect(fitted).toEqual([
    said("go"),
    { role: "assistant", content: [{ type: "text", text: "It says so." }] },
    said("and then?"),
  ]);
});
