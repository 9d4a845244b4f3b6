import { PassThrough } from "node:stream";
import { afterEach, expect, test, vi } from "vitest";
import { createStyle } from "#terminal/style.ts";

afterEach(() => vi.unstubAllEnvs());

test.each([
  ["a terminal", {}, true],
  ["a pipe", {}, false],
  ["a terminal", { NO_COLOR: "1" }, false],
  ["a terminal", { FORCE_COLOR: "0" }, false],
  ["a terminal", { FORCE_COLOR: "false" }, false],
  ["a pipe", { FORCE_COLOR: "1" }, true],
  ["a pipe", { FORCE_COLOR: "true" }, true],
  ["a pipe", { FORCE_COLOR: "" }, false],
  ["a pipe", { FORCE_COLOR: "1", NO_COLOR: "1" }, false],
])("text for %s with the variables %j has colors: %s", (output, variables, hasColors) => {
  for (const [name, value] of Object.entries({ NO_COLOR: "", FORCE_COLOR: "", ...variables })) vi.stubEnv(name, value);
  const style = createStyle(Object.assign(new PassThrough(), { isTTY: output === "a terminal" }));

  expect(style("red", "stop")).toBe(hasColors ? "\u001b[31mstop\u001b[39m" : "stop");
});
