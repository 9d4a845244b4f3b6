import { z } from "zod";
import { parseJson } from "#text/json-values.ts";
import { truncateLine } from "#text/truncate.ts";
import { normalizeText } from "#text/visible-text.ts";

export const TestSummary = z.object({
  passed: z.number(),
  failed: z.number(),
  skipped: z.number(),
  failures: z.array(z.object({ name: z.string(), error: z.string() })),
});
export type TestSummary = z.infer<typeof TestSummary>;
export type FailedTest = TestSummary["failures"][number];

export const maxFailures = 50;
const maxErrorLines = 12;
const maxLineLength = 500;
const maxErrorLength = 8_000;
const maxNameLength = 500;

/** Shortens the list of failures, their names and their errors, to the first lines of the project's own code. */
export function shortened(summary: TestSummary): TestSummary {
  const failures = summary.failures.slice(0, maxFailures).map(({ name, error }) => ({
    name: name.slice(0, maxNameLength),
    error: firstLines(error).slice(0, maxErrorLength),
  }));
  return { ...summary, failures };
}

function firstLines(text: string): string {
  const lines = normalizeText(text)
    .split("\n")
    .map((line) => line.trimEnd());
  const own = lines.filter((line) => !isForeignFrame(line.trimStart()));
  const start = own.findIndex((line) => line.trim() !== "");
  const kept = own.slice(Math.max(0, start), Math.max(0, start) + maxErrorLines);
  const indents = kept.filter((line) => line !== "").map((line) => /^ */.exec(line)?.[0].length ?? 0);
  const indent = Math.min(...indents);
  return kept
    .map((line) => line.slice(indent))
    .map((line) => truncateLine(line, maxLineLength))
    .join("\n")
    .trim();
}

/** True if a line of a stack belongs to a package or the runtime, which says little about a failure. */
export function isForeignFrame(line: string): boolean {
  if (line.startsWith("/usr/lib/python") || line.startsWith("from /usr/")) return true;
  if (javaFrame.test(line)) return true;
  return (
    line.startsWith("at ") && (/node_modules\/|[ (]node:/.test(line.slice(0, 1_000)) || line.endsWith("<anonymous>)"))
  );
}

/** Frames of Java, and of its test libraries and build tools, also with the module or class loader before them. */
const javaFrame =
  /^at (?:[\w.@]+\/{1,2})*(?:java|javax|jdk|sun|org\.junit|junit|org\.opentest4j|org\.hamcrest|org\.assertj|org\.testng|org\.gradle|worker\.org\.gradle|org\.apache\.maven)\.[\w.$]+\(/;

/** The maximum number of positions at which JSON may start: each is parsed to its end. */
const maxJsonStarts = 8;

/** Returns the JSON object of this shape in an output that may start with other text. */
export function findJson<Report>(text: string, schema: z.ZodType<Report>): Report | undefined {
  let start = text.indexOf("{");
  for (let tries = 0; start !== -1 && tries < maxJsonStarts; tries += 1) {
    const report = schema.safeParse(parseJson(text.slice(start, text.lastIndexOf("}") + 1))).data;
    if (report) return report;
    start = text.indexOf("\n{", start + 1);
  }
  return undefined;
}

/** The fields of a report, which may be missing or of another type. */
export const textOrEmpty = z.string().catch("");
export const countOrZero = z.number().catch(0);
export const listOrEmpty = <Item extends z.ZodType>(item: Item) => z.array(item).catch([]);
