import { encode } from "gpt-tokenizer/encoding/o200k_base";
import { expect, test } from "vitest";
import type { ChatRequest } from "#playground/model/model-server.ts";
import { origin, runtimeWorlds } from "../../support/runtime-world.ts";

const world = runtimeWorlds();

const maxTokens = 12_000;
const reader = `---
name: reader
max_context_tokens: ${maxTokens}
limits: { steps: 60 }
toolsets: { filesystem: }
---
Read the notes.`;

const notes = Array.from({ length: 40 }, (_, index) => [
  `notes/${index}.md`,
  `Note ${index}: the total in src/total.js counts items ${index} times, see https://example.com/${index}.\n`.repeat(
    25,
  ),
]);

const isSummaryRequest = (request: ChatRequest) =>
  JSON.stringify(request.messages.at(-1)).includes("Summarize this conversation");

/** Reads one note per turn, and summarizes when asked to. */
function readNotes(count: number) {
  let next = 0;
  return (request: ChatRequest) => {
    if (isSummaryRequest(request)) return { text: `I have read the notes up to ${next - 1}.` };
    if (next === count) return { text: "All are read." };
    return { calls: [{ name: "read_file", args: { path: `notes/${next++}.md` } }] };
  };
}

async function readNotesOf(count: number) {
  const made = await world({
    script: readNotes(count),
    github: { files: { ".github/workers/reader.worker": reader, ...Object.fromEntries(notes) } },
  });
  const run = await made.runs.startRun({ origin, worker: "reader", text: "Count the notes about totals." });
  const view = await made.ended();
  return { ...made, run, view };
}

const known = new Map<string, number>();

/** The tokens of a request, part by part: requests repeat the messages of earlier ones, and counting takes long. */
function tokensOf({ messages, ...rest }: ChatRequest): number {
  return [rest, ...messages]
    .map((part) => JSON.stringify(part))
    .map((text) => known.getOrInsertComputed(text, () => encode(text).length))
    .reduce((sum, tokens) => sum + tokens, 0);
}

test("a long conversation is summarized, the log keeps everything, and no request exceeds max_context_tokens", async () => {
  const { run, view, model, store } = await readNotesOf(notes.length);

  const log = await store.log(run.id);
  const summaries = log.flatMap(({ event }) => (event.type === "conversation.compacted" ? [event] : []));
  expect(summaries.length).toBeGreaterThan(1);
  expect(log.filter(({ event }) => event.type === "tool.finished")).toHaveLength(notes.length);
  expect(view).toMatchObject({ steps: notes.length + 1, outcome: { kind: "answered", text: "All are read." } });
  expect(view.log).toContain("Summarized the conversation so far");
  for (const request of model.requests) expect(tokensOf(request)).toBeLessThan(maxTokens);
  const last = JSON.stringify(model.requests.at(-1)?.messages);
  expect(last).toContain("Count the notes about totals.");
  expect(last).toContain(summaries.at(-1)?.summary);
});

test("between two summaries each request only adds to the one before, so that the provider's cache applies", async () => {
  const { model, store, run } = await readNotesOf(25);

  const sent = model.requests.map(({ messages }) => messages.map((message) => JSON.stringify(message)));
  const isExtended = (before: string[], after: string[]) => before.every((message, index) => after[index] === message);
  const breaks = sent.filter((messages, index) => index > 0 && !isExtended(sent[index - 1] ?? [], messages)).length;
  const summaries = (await store.log(run.id)).filter(({ event }) => event.type === "conversation.compacted").length;
  expect(summaries).toBeGreaterThan(0);
  expect(breaks).toBe(summaries);
});

test("what the summaries cost counts towards the run", async () => {
  const { store, run, view } = await readNotesOf(25);

  const usages = (await store.log(run.id)).flatMap(({ event }) =>
    event.type === "model.answered" || event.type === "conversation.compacted" ? [event.usage] : [],
  );
  expect(view.usage.inputTokens).toBe(usages.reduce((sum, { inputTokens }) => sum + inputTokens, 0));
});

test("a model that calls tools instead of writing a summary is paid for that call, too", async () => {
  let next = 0;
  const price = { inputTokens: 100, outputTokens: 1 };
  const { model, ended, runs } = await world({
    script: (request) => {
      if (isSummaryRequest(request))
        return { calls: [{ name: "read_file", args: { path: "notes/0.md" } }], usage: price };
      if (next === 14) return { text: "All are read.", usage: price };
      return { calls: [{ name: "read_file", args: { path: `notes/${next++}.md` } }], usage: price };
    },
    github: { files: { ".github/workers/reader.worker": reader, ...Object.fromEntries(notes) } },
  });
  await runs.startRun({ origin, worker: "reader", text: "Count the notes about totals." });

  const view = await ended();

  expect(model.requests.some(isSummaryRequest)).toBe(true);
  expect(view).toMatchObject({ steps: 15, outcome: { kind: "answered", text: "All are read." } });
  expect(view.usage).toMatchObject({ inputTokens: 100 * model.requests.length, outputTokens: model.requests.length });
});
