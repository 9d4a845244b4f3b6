import { expect, test } from "vitest";
import { chooseModel } from "#playground/demo/choose-model.ts";

test.each([
  ["nothing is set: the scripted one", undefined, {}, undefined],
  ["the one asked for wins", "google:x", { GOLEM_FORGE_MODEL: "openai:y", ANTHROPIC_API_KEY: "k" }, "google:x"],
  ["then the deployment's", undefined, { GOLEM_FORGE_MODEL: "openai:y", ANTHROPIC_API_KEY: "k" }, "openai:y"],
  [
    "a key brings a model of its provider",
    undefined,
    { GOOGLE_GENERATIVE_AI_API_KEY: "k" },
    expect.stringMatching(/^google:/),
  ],
  [
    "a server of one's own has models nobody knows",
    undefined,
    { OPENAI_API_KEY: "k", OPENAI_BASE_URL: "http://127.0.0.1:1" },
    undefined,
  ],
])("%s", (_, asked, environment, model) => {
  expect(chooseModel(asked, environment)).toEqual(model);
});
