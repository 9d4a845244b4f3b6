import { type JsonSchema, type Parameter, parametersOf, typeOfValue, typesOf } from "#domain/json-schema.ts";

/** Parameter names that other tool systems use for the same purpose. */
const synonyms: readonly (readonly string[])[] = [
  ["path", "file_path", "filepath", "file", "filename", "file_name", "paths", "file_paths", "files", "filenames"],
  ["path", "directory", "dir", "folder"],
  ["content", "contents", "text", "body", "data"],
  ["pattern", "query", "regex", "search", "search_term"],
  ["command", "cmd", "script"],
  ["from", "source", "src", "old_path"],
  ["to", "destination", "dest", "target", "new_path"],
  ["old_string", "old_text", "old", "search"],
  ["new_string", "new_text", "new", "replace", "replacement"],
  ["patch", "diff"],
  ["limit", "max_results", "head_limit"],
  ["task", "input", "prompt", "message"],
  ["context", "instructions"],
];

/**
 * Corrects common mistakes in a model's arguments: JSON passed as text, quoted numbers and booleans, a single value for a
 * list, null for an optional parameter, parameter names of other tool systems. Never completes truncated input or guesses
 * a value. The caller must validate the result.
 */
export function repairArguments(args: unknown, json: JsonSchema): unknown {
  const object = typeof args === "string" ? parseJson(parseJson(args)) : args;
  if (typeOfValue(object) !== "object") return object;

  return repairObject(object as Record<string, unknown>, parametersOf(json));
}

function repairObject(given: Record<string, unknown>, parameters: Parameter[]): Record<string, unknown> {
  const entries = Object.entries(given).flatMap(([key, value]): [string, unknown][] => {
    const parameter = parameters.find(({ name }) => name === key) ?? likelyParameter(key, given, parameters);
    if (!parameter) return [[key, value]];

    const { name, schema, required } = parameter;
    const mayBeNull = typesOf(schema).length === 0 || typesOf(schema).includes("null");
    return value === null && !required && !mayBeNull ? [] : [[name, repairValue(value, schema)]];
  });
  return Object.fromEntries(entries);
}

function likelyParameter(key: string, given: Record<string, unknown>, parameters: Parameter[]): Parameter | undefined {
  const free = parameters.filter(({ name }) => !Object.hasOwn(given, name));
  const same = free.find(({ name }) => normalizeName(name) === normalizeName(key));
  if (same) return same;

  const groups = synonyms.filter((group) => group.some((word) => normalizeName(word) === normalizeName(key)));
  return free.find(({ name }) =>
    groups.some((group) => group.some((word) => normalizeName(word) === normalizeName(name))),
  );
}

function normalizeName(name: string): string {
  return name.replace(/[-_]/g, "").toLowerCase();
}

function repairValue(value: unknown, schema: JsonSchema): unknown {
  const types = typesOf(schema);
  const type = typeOfValue(value);
  if (types.length === 0) return value;
  if (types.includes(type) || (type === "number" && types.includes("integer"))) return repairMembers(value, schema);

  if (typeof value === "string") {
    const parsed = parseText(value, types);
    if (parsed !== undefined) return repairMembers(parsed, schema);
  }
  if (types.includes("array") && type !== "null") return repairMembers([value], schema);
  if (Array.isArray(value) && value.length === 1) return repairValue(value[0], schema);
  return value;
}

function repairMembers(value: unknown, schema: JsonSchema): unknown {
  if (Array.isArray(value) && schema.items) return value.map((item) => repairValue(item, schema.items as JsonSchema));
  if (typeOfValue(value) === "object" && schema.properties) {
    return repairObject(value as Record<string, unknown>, parametersOf(schema));
  }
  return value;
}

function parseText(text: string, types: string[]): unknown {
  const word = text.trim();
  if ((types.includes("number") || types.includes("integer")) && /^-?\d+(\.\d+)?(e[+-]?\d+)?$/i.test(word)) {
    return Number(word);
  }
  if (types.includes("boolean") && /^(true|false)$/i.test(word)) return word.toLowerCase() === "true";

  const parsed = parseJson(text);
  return parsed !== text && types.includes(typeOfValue(parsed)) ? parsed : undefined;
}

/** Parses JSON text; returns any other value unchanged. */
function parseJson(value: unknown): unknown {
  if (typeof value !== "string") return value;
  try {
    return JSON.parse(withoutFence(value));
  } catch {
    return value;
  }
}

function withoutFence(text: string): string {
  const lines = text.trim().split("\n");
  const isFenced = lines.length > 2 && /^```\w*\s*$/.test(lines[0] ?? "") && lines.at(-1)?.trim() === "```";
  return isFenced ? lines.slice(1, -1).join("\n") : text;
}
