import { typeOfValue } from "./json-schema.ts";

// Without the AI SDK, which `tool-schema.ts` needs: files are read with these functions before the first run loads it.

/** A validation issue in the shape of zod's issues, for schemas of any library. */
export interface SchemaIssue {
  code?: string;
  path: PropertyKey[];
  message: string;
  expected?: string;
  /** Unknown keys. */
  keys?: string[];
  /** The values that are accepted. */
  values?: unknown[];
  /** For a union: the issues of each member. */
  errors?: SchemaIssue[][];
}

/** Describes a schema issue for the model: `Invalid type for parameter 'path' in read_file: Expected string, got number`. */
export function describeSchemaIssue(tool: string, issue: SchemaIssue, args: unknown): string {
  if (issue.code === "unrecognized_keys") {
    const keys = (issue.keys ?? []).map((key) => `'${pathText([...issue.path, key])}'`);
    return `Unknown parameter ${keys.join(", ")} for ${tool}`;
  }

  const value = valueAt(args, issue.path);
  const parameter = pathText(issue.path);
  if (parameter === "") return `Invalid arguments for ${tool}: ${describeMismatch(issue, value)}`;
  if (value === undefined) return `Missing required parameter '${parameter}' for ${tool}`;
  if (issue.code === "invalid_type")
    return `Invalid type for parameter '${parameter}' in ${tool}: ${describeMismatch(issue, value)}`;
  return `Invalid value for parameter '${parameter}' in ${tool}: ${describeMismatch(issue, value)}`;
}

/** Describes how a value differs from what the schema expects: `Expected string, got number`. */
export function describeMismatch(issue: SchemaIssue, value: unknown): string {
  if (issue.code === "invalid_type" && issue.expected) {
    return `Expected ${typeName(issue.expected)}, got ${describeActual(issue.expected, value)}`;
  }
  if (issue.code === "invalid_value" && issue.values) {
    const values = issue.values.map((one) => JSON.stringify(one)).join(", ");
    return `Expected ${issue.values.length > 1 ? `one of ${values}` : values}, got ${excerpt(value)}`;
  }
  if (issue.code === "invalid_union") {
    const branches = (issue.errors ?? []).map((errors) => errors[0]);
    const types = branches.filter((branch) => branch?.code === "invalid_type" && branch.path.length === 0);
    if (types.length > 0 && types.length === branches.length) {
      const expected = [...new Set(types.map((branch) => typeName(branch?.expected ?? "")))];
      return `Expected ${expected.join(" or ")}, got ${typeOfValue(value)}`;
    }
  }
  return value === undefined ? issue.message : `${issue.message}, got ${excerpt(value)}`;
}

function typeName(expected: string): string {
  return expected === "int" ? "integer" : expected;
}

function describeActual(expected: string, value: unknown): string {
  return expected === "int" && typeof value === "number" ? String(value) : typeOfValue(value);
}

function excerpt(value: unknown): string {
  const text = typeof value === "bigint" ? String(value) : (JSON.stringify(value) ?? typeof value);
  return text.length > 60 ? `${text.slice(0, 57)}...` : text;
}

/** The value at a path in parsed data; undefined if there is none. */
export function valueAt(value: unknown, path: readonly PropertyKey[]): unknown {
  return path.reduce<unknown>((node, key) => {
    const hasKey = typeof node === "object" && node !== null && Object.hasOwn(node, key);
    return hasKey ? (node as Record<PropertyKey, unknown>)[key] : undefined;
  }, value);
}

function pathText(path: PropertyKey[]): string {
  return path
    .map((key, index) => (typeof key === "number" ? `[${key}]` : `${index > 0 ? "." : ""}${String(key)}`))
    .join("");
}
