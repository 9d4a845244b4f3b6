import { encode } from "gpt-tokenizer/encoding/o200k_base";
import { expect, test } from "vitest";
import type { ChatRequest } from "#playground/model/model-server.ts";
import { origin, runtimeWorlds, turns } from "../support/runtime-world.ts";

const world = runtimeWorlds();

/** The tokens of a value in a request, as OpenAI's models count them. */
const tokensOf = (value: unknown) => encode(JSON.stringify(value)).length;
const tokensOfRequest = ({ messages, tools }: ChatRequest) => tokensOf(messages) + tokensOf(tools);

async function playStory() {
  const { runs, approvalRequested, model } = await world({
    script: turns(
      { calls: [{ name: "read_file", args: { path: "src/sum.ts" } }] },
      { calls: [{ name: "write_file", args: { path: "src/sum.ts", content: "export const sum = 1;\n" } }] },
      { calls: [{ name: "open_pull_request", args: { title: "Count every item once", body: "One too many." } }] },
    ),
  });
  await runs.startRun({ origin, worker: "fixer", text: "please" });
  await approvalRequested();
  return model.requests;
}

// The limits are half of what the first version took: 4,690 and 15,091 tokens.
test("the fixer's instructions and tools take at most 2,345 tokens", async () => {
  const [first] = await playStory();

  expect(tokensOf(first?.messages[0]) + tokensOf(first?.tools)).toBeLessThanOrEqual(2_345);
});

test("the fixer's three requests from the issue to the pull request take at most 7,545 tokens", async () => {
  const requests = await playStory();

  expect(requests).toHaveLength(3);
  expect(requests.reduce((sum, request) => sum + tokensOfRequest(request), 0)).toBeLessThanOrEqual(7_545);
});
