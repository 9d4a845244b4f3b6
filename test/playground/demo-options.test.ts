import { expect, test } from "vitest";
import { chooseModel } from "#playground/demo/demo-options.ts";

test.each([
  ["nothing is configured: the scripted model", undefined, {}, undefined],
  [
    "the requested model comes first",
    "google:x",
    { GOLEM_FORGE_MODEL: "openai:y", ANTHROPIC_API_KEY: "k" },
    "google:x",
  ],
  ["then the configured one", undefined, { GOLEM_FORGE_MODEL: "openai:y", ANTHROPIC_API_KEY: "k" }, "openai:y"],
  [
    "an API key selects a model of its provider",
    undefined,
    { GOOGLE_GENERATIVE_AI_API_KEY: "k" },
    expect.stringMatching(/^google:/),
  ],
  [
    "the models of an OpenAI-compatible server are unknown",
    undefined,
    { OPENAI_API_KEY: "k", OPENAI_BASE_URL: "http://127.0.0.1:1" },
    undefined,
  ],
])("%s", (_, asked, environment, model) => {
  expect(chooseModel(asked, environment)).toEqual(model);
});
