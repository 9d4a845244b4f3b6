import { expect, test } from "vitest";
import { chooseModel, parseDemoOptions } from "#playground/demo/demo-options.ts";

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

test.each([
  [["--storry"], "Unknown option --storry. Did you mean --story?"],
  [["story"], 'Unexpected argument "story". Try --help.'],
  [["--port", "many"], "--port must be a number from 0 to 65535, such as --port 4000."],
  [["--port"], "--port must be a number from 0 to 65535, such as --port 4000."],
  [["--model", "gpt"], "--model must be provider:model, such as --model anthropic:claude-haiku-4-5."],
])("%j is refused with an explanation", (args, message) => {
  expect(() => parseDemoOptions(args)).toThrow(message);
});

test.each([
  [["--port", "4100", "--story"], { port: 4100, story: true, model: undefined, help: false }],
  [["--model=openai:gpt-5", "-h"], { port: undefined, story: false, model: "openai:gpt-5", help: true }],
])("%j is parsed", (args, options) => {
  expect(parseDemoOptions(args)).toEqual(options);
});
