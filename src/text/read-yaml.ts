import { isMap, isNode, isScalar, isSeq, LineCounter, type Node, parseDocument, visit, type YAMLError } from "yaml";
import type { z } from "zod";
import { InvalidFileError, messageOf, UserError } from "#domain/errors.ts";
import { describeMismatch, valueAt } from "#domain/schema-issue.ts";
import { didYouMean } from "./closest-match.ts";

/** The parser needs tens of milliseconds for hostile text of this length. */
const maxCharacters = 32_768;

/**
 * Parses YAML. `name` starts the error messages, such as `The front matter of fixer.worker`; `firstLine` is the line of the
 * file on which the text begins. Throws an InvalidFileError with the position of the first error.
 */
export function readYaml(text: string, name: string, firstLine = 1): unknown {
  if (text.length > maxCharacters) {
    const [length, max] = [text.length, maxCharacters].map((count) => count.toLocaleString("en-US"));
    throw new UserError(`${name} is too long: it has ${length} characters, and the limit is ${max}.`);
  }
  const lines = new LineCounter();
  const problem = (message: string, position: number, cause?: unknown) => {
    const { line, column } = filePosition(lines, position, firstLine);
    return new InvalidFileError(
      `${name} is not valid YAML: ${message} at line ${line}, column ${column}.`,
      [{ message: `${message}.`, line, column }],
      { cause },
    );
  };

  // The parser's own check for duplicate keys takes quadratic time, and so do its pretty messages. Its warnings would
  // print parts of the text to the log.
  const options = { logLevel: "error", prettyErrors: false, uniqueKeys: false, lineCounter: lines } as const;
  const document = readSafely(() => parseDocument(text, options), name);
  const [error] = document.errors;
  if (error) throw problem(describeYamlError(error), error.pos[0], error);
  const duplicate = findDuplicateKey(document);
  if (duplicate) throw problem(`The key "${duplicate.key}" occurs twice`, duplicate.position);
  // Aliases multiply: a few lines could expand to gigabytes.
  return readSafely(() => document.toJS({ maxAliasCount: 20 }), name);
}

/** The position of a field's key or list item in parsed YAML; for a missing field, of what should contain it. */
export function positionInYaml(
  text: string,
  path: readonly PropertyKey[],
  firstLine = 1,
): { line: number; column: number } {
  const lines = new LineCounter();
  const { contents } = parseDocument(text, {
    logLevel: "silent",
    prettyErrors: false,
    uniqueKeys: false,
    lineCounter: lines,
  });
  let node: unknown = contents;
  let offset = contents?.range?.[0] ?? 0;
  for (const segment of path) {
    const found = childAt(node, segment);
    if (!found) break;
    offset = found.offset;
    node = found.node;
  }
  return filePosition(lines, offset, firstLine);
}

function childAt(node: unknown, segment: PropertyKey): { node: unknown; offset: number } | undefined {
  if (isMap(node)) {
    const pair = node.items.find(({ key }) => isScalar(key) && String(key.value) === String(segment));
    return pair && { node: pair.value, offset: offsetOf(pair.key) };
  }
  if (!isSeq(node)) return undefined;
  const item = node.items[Number(segment)];
  return item === undefined ? undefined : { node: item, offset: offsetOf(item) };
}

function offsetOf(node: unknown): number {
  return isNode(node) ? ((node as Node).range?.[0] ?? 0) : 0;
}

function filePosition(lines: LineCounter, offset: number, firstLine: number): { line: number; column: number } {
  const { line, col } = lines.linePos(offset);
  return { line: line + firstLine - 1, column: col };
}

function describeYamlError({ code, message }: YAMLError): string {
  if (code === "MULTIPLE_DOCS") return "Only one document is allowed, but a second one begins";
  if (message.startsWith("Maximum call stack")) return "It is nested too deeply";
  return message.replace(/^Missing closing (["'])quote$/, "The closing $1 is missing");
}

function readSafely<T>(read: () => T, name: string): T {
  try {
    return read();
  } catch (error) {
    if (error instanceof RangeError) throw new UserError(`${name} is nested too deeply.`, { cause: error });
    const message = messageOf(error);
    throw new UserError(`${name} is not valid YAML: ${message}`, { cause: error });
  }
}

function findDuplicateKey(document: Parameters<typeof visit>[0]): { key: string; position: number } | undefined {
  let found: { key: string; position: number } | undefined;
  visit(document, {
    Map(_, map) {
      const keys = new Set<unknown>();
      for (const { key } of isMap(map) ? map.items : []) {
        if (!isScalar(key)) continue;
        if (keys.has(key.value)) found = { key: String(key.value), position: key.range?.[0] ?? 0 };
        if (found) return visit.BREAK;
        keys.add(key.value);
      }
      return undefined;
    },
  });
  return found;
}

/** Returns the known fields at a path of a file. */
type FieldsAt = (path: readonly PropertyKey[]) => readonly string[];

/**
 * Describes the validation issues of data that a person wrote, in sentences: `limits.steps: Expected number, got string.
 * Unknown field tolsets. Did you mean toolsets?`
 */
export function describeProblems(issues: readonly z.core.$ZodIssue[], fieldsAt: FieldsAt, value: unknown): string {
  return issues
    .flatMap((issue) => toProblems(issue, fieldsAt, value))
    .map(({ message }) => message)
    .join(" ");
}

interface InvalidYaml {
  issues: readonly z.core.$ZodIssue[];
  fieldsAt: FieldsAt;
  /** The parsed YAML. */
  value: unknown;
  yaml: string;
  /** The line of the file on which the YAML begins. Default: 1. */
  firstLine?: number;
}

/** Describes the validation issues of a YAML file, with their positions. `summary` starts the message: `x.yml is not valid`. */
export function invalidFile(summary: string, { issues, fieldsAt, value, yaml, firstLine = 1 }: InvalidYaml): Error {
  const problems = issues.flatMap((issue) => toProblems(issue, fieldsAt, value));
  const message = problems.map((problem) => problem.message).join(" ");
  return new InvalidFileError(
    `${summary}: ${message}`,
    problems.map((problem) => ({ message: problem.message, ...positionInYaml(yaml, problem.path, firstLine) })),
  );
}

interface Problem {
  message: string;
  path: readonly PropertyKey[];
}

function toProblems(issue: z.core.$ZodIssue, fieldsAt: FieldsAt, root: unknown): Problem[] {
  const path = issue.path.map(String).join(".");
  if (issue.code === "unrecognized_keys") {
    const known = fieldsAt(issue.path);
    return issue.keys.map((key) => {
      const message = `Unknown field ${path ? `${path}.` : ""}${key}.${didYouMean(key, known)}`;
      return { message, path: [...issue.path, key] };
    });
  }
  const value = valueAt(root, issue.path);
  if (value === undefined && path && issue.code !== "custom")
    return [{ message: `${path} is missing.`, path: issue.path }];
  return [{ message: `${path ? `${path}: ` : ""}${describeValue(issue, value)}`, path: issue.path }];
}

/** Uses the words of YAML for types. */
function describeValue(issue: z.core.$ZodIssue, value: unknown): string {
  if ((issue.code === "too_small" || issue.code === "too_big") && typeof value === "number") {
    const [bound, word] = issue.code === "too_small" ? [issue.minimum, "greater"] : [issue.maximum, "less"];
    const limit = issue.inclusive ? `at ${word === "greater" ? "least" : "most"} ${bound}` : `${word} than ${bound}`;
    return `Expected a number ${limit}, got ${value}.`;
  }
  // A custom message of the schema is more helpful than the mismatch.
  if (!issue.message.startsWith("Invalid ")) return `${issue.message}.`;
  const mismatch = describeMismatch({ ...issue, path: [...issue.path] }, value);
  if (issue.code === "invalid_value" && typeof value === "string") {
    return `${mismatch}.${didYouMean(value, issue.values.map(String))}`;
  }
  return issue.code === "invalid_type" || issue.code === "invalid_union"
    ? `${mismatch.replaceAll(/\b(?:record|object)\b/g, "mapping").replaceAll(/\barray\b/g, "list")}.`
    : `${mismatch}.`;
}
