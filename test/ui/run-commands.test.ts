import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { runCommands } from "#ui/run-commands.ts";

test.each(Object.values(runCommands))("the README explains /$usage as /help does", ({ usage, help }) => {
  expect(readFileSync("README.md", "utf8")).toContain(`| \`/${usage}\` | ${help} |`);
});
