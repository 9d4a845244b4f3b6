import { type JsonSchema, type Parameter, parametersOf, typeOfValue, typesOf } from "#domain/json-schema.ts";

/** Names that other tool systems give to the same parameter. */
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
];

/**
 * The arguments a model probably meant, by the schema: JSON that came as text, numbers and booleans in quotes, one
 * value for a list, null for what may be left out, names that other systems use. Never completes what was cut off, and
 * never guesses a value. It is a proposal: it counts only if it then validates.
 */
export function repairArguments(args: unknown, json: JsonSchema): unknown {
  const object = typeof args === "string" ? parseJson(parseJson(args)) : args;
  if (typeOfValue(object) !== "object") return object;

  return repairObject(object as Record<string, unknown>, parametersOf(json));
}

function repairObject(given: Record<string, unknown>, parameters: Parameter[]): Record<string, unknown> {
  const entries = Object.entries(given).flatMap(([key, value]): [string, unknown][] => {
    const parameter = parameters.find(({ name }) => name === key) ?? meantBy(key, given, parameters);
    if (!parameter) return [[key, value]];

    const { name, schema, required } = parameter;
    const mayBeNull = typesOf(schema).length === 0 || typesOf(schema).includes("null");
    return value === null && !required && !mayBeNull ? [] : [[name, repairValue(value, schema)]];
  });
  return Object.fromEntries(entries);
}

function meantBy(key: string, given: Record<string, unknown>, parameters: Parameter[]): Parameter | undefined {
  const free = parameters.filter(({ name }) => !Object.hasOwn(given, name));
  const same = free.find(({ name }) => plain(name) === plain(key));
  if (same) return same;

  const groups = synonyms.filter((group) => group.some((word) => plain(word) === plain(key)));
  return free.find(({ name }) => groups.some((group) => group.some((word) => plain(word) === plain(name))));
}

function plain(name: string): string {
  return name.replace(/[-_]/g, "").toLowerCase();
}

function repairValue(value: unknown, schema: JsonSchema): unknown {
  const types = typesOf(schema);
  const came = typeOfValue(value);
  if (types.length === 0) return value;
  if (types.includes(came) || (came === "number" && types.includes("integer"))) return repairMembers(value, schema);

  if (typeof value === "string") {
    const read = readText(value, types);
    if (read !== undefined) return repairMembers(read, schema);
  }
  if (types.includes("array") && came !== "null") return repairMembers([value], schema);
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

function readText(text: string, types: string[]): unknown {
  const word = text.trim();
  if ((types.includes("number") || types.includes("integer")) && /^-?\d+(\.\d+)?(e[+-]?\d+)?$/i.test(word)) {
    return Number(word);
  }
  if (types.includes("boolean") && /^(true|false)$/i.test(word)) return word.toLowerCase() === "true";

  const parsed = parseJson(text);
  return parsed !== text && types.includes(typeOfValue(parsed)) ? parsed : undefined;
}

/** What is not JSON stays as it is. */
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
