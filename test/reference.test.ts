import { globSync, readFileSync } from "node:fs";
import { Ajv } from "ajv";
import { expect, test } from "vitest";
import { parse } from "yaml";
import { renderReference, workerSchema } from "../scripts/generate-reference.ts";

test("docs/reference.md is generated from the code as it is: run node scripts/generate-reference.ts", async () => {
  const reference = await renderReference();

  expect(readFileSync("docs/reference.md", "utf8")).toBe(reference);
  expect(reference).not.toContain("| * ");
});

test("docs/worker.schema.json is generated from the code as it is: run node scripts/generate-reference.ts", () => {
  expect(JSON.parse(readFileSync("docs/worker.schema.json", "utf8"))).toEqual(
    JSON.parse(JSON.stringify(workerSchema())),
  );
});

const validate = new Ajv({ strict: false, validateFormats: false }).compile(workerSchema());

test.each(globSync("workers/*.worker"))("the JSON Schema accepts %s", (file) => {
  const [, frontMatter = ""] = readFileSync(file, "utf8").split(/^---$/m);

  expect(validate(parse(frontMatter)), JSON.stringify(validate.errors)).toBe(true);
});

test("the JSON Schema refuses an unknown toolset", () => {
  expect(validate({ name: "fixer", toolsets: { gti: {} } })).toBe(false);
});
