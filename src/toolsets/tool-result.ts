import { z } from "zod";
import { ToolError, ToolErrorCode, type ToolErrorOptions, UserError } from "#domain/errors.ts";
import {
  DiffResultValue,
  isWellKnown,
  isWellKnownKind,
  type ResultValue,
  type Task,
  type ToolResult,
  type WellKnownResultValue,
} from "#domain/result.ts";
import { estimateTokens } from "#text/estimate-tokens.ts";
import { truncateText } from "#text/truncate.ts";
import { showHidden } from "#text/visible-text.ts";
import { compareTexts, unifiedDiff } from "./filesystem/file-changes.ts";

/** Converts a tool's return value to a ToolResult. A ResultValue, text or other JSON gets a text for the model. */
export function normalizeResult(returned: unknown): ToolResult {
  if (returned === undefined) return textResult("Done.");
  if (typeof returned === "string") return textResult(returned);
  if (isToolResult(returned)) return returned;

  const value: ResultValue = isResultValue(returned) ? returned : { kind: "json", data: returned };
  return { llmContent: describeForModel(value), value };
}

/** Adds the unified diff to a diff value that has only its texts, so that every front end shows a diff. */
export async function withUnifiedDiff(result: ToolResult): Promise<ToolResult> {
  const parsed = DiffResultValue.safeParse(result.value);
  if (!parsed.success || parsed.data.diff !== undefined) return result;

  const { path, original, modified, isNew, action, hunks, stats } = parsed.data;
  if (original === undefined && !isNew) return result;
  const before = isNew ? undefined : original;
  const compared = await compareTexts({ path, before, after: action === "delete" ? undefined : modified });
  const { additions, deletions } = compared;
  const value = {
    ...parsed.data,
    diff: unifiedDiff(compared),
    hunks: hunks ?? compared.hunks,
    stats: stats ?? { additions, deletions, changes: additions + deletions },
  };
  return { ...result, value };
}

export function textResult(text: string): ToolResult {
  return { llmContent: text, value: { kind: "text", content: text } };
}

function isToolResult(returned: unknown): returned is ToolResult {
  return typeof returned === "object" && returned !== null && "llmContent" in returned && "value" in returned;
}

/** An object with a `kind` is plain data unless it has the shape of a ResultValue. */
function isResultValue(returned: unknown): returned is ResultValue {
  if (typeof returned !== "object" || returned === null || !("kind" in returned)) return false;
  return "data" in returned || (typeof returned.kind === "string" && isWellKnownKind(returned.kind));
}

/** Returns the text that the model reads if a tool provides only a value. */
export function describeForModel(value: ResultValue): string {
  return isWellKnown(value) ? describeWellKnown(value) : withSummary(value.summary, value.data);
}

function describeWellKnown(value: WellKnownResultValue): string {
  switch (value.kind) {
    case "text":
    case "file_content":
      return value.content;
    case "terminal": {
      const text = showHidden(value.content);
      return typeof value.exitCode === "number" ? `${text}\nExit code: ${value.exitCode}` : text;
    }
    case "diff": {
      const verb = value.action === "delete" ? "Deleted" : value.isNew ? "Created" : "Changed";
      return [value.summary ?? `${verb} ${value.path}.`, value.diff].filter(Boolean).join("\n");
    }
    case "file_list":
      return withSummary(value.summary ?? `${value.count} in ${value.path || "/"}`, value.files);
    case "task_list":
      return value.tasks.map(describeTask).join("\n");
    case "json":
      return withSummary(value.summary, value.data);
  }
}

function withSummary(summary: string | undefined, data: unknown): string {
  const json = typeof data === "string" ? data : (JSON.stringify(data, null, 1) ?? "Done.");
  return summary ? `${summary}\n${json}` : json;
}

function describeTask({ content, status }: Task): string {
  const mark = { pending: " ", in_progress: "◐", completed: "✓", cancelled: "x" }[status];
  return `[${mark}] ${content}`;
}

/** The maximum JSON length of a value for people, in characters: it is stored, and rendered again with every status. */
const maxValueCharacters = 400_000;

/** Limits for the texts and lists in a value that is too long, tried in order. */
const valueLimits = [
  { characters: 100_000, items: 5_000 },
  { characters: 10_000, items: 500 },
  { characters: 1_000, items: 50 },
];

/** Limits the result to `maxTokens` estimated tokens for the model, and to a bounded value for people. */
export function truncateResult(result: ToolResult, maxTokens: number): ToolResult {
  return {
    ...result,
    value: truncateValue(result.value),
    llmContent: truncateToTokens(result.llmContent, maxTokens),
  };
}

function truncateValue(value: ResultValue): ResultValue {
  // Texts that are too long are not converted to JSON, which would take a tenth of a second for 20 MB.
  if (lengthOfTexts(value) <= maxValueCharacters && sizeOf(value) <= maxValueCharacters) return value;
  for (const limits of valueLimits) {
    const shorter = shortenValue(value, limits) as ResultValue;
    if (sizeOf(shorter) <= maxValueCharacters) return shorter;
  }
  const content = `The result is too large to be stored: ${sizeOf(value).toLocaleString("en-US")} characters.`;
  return { kind: "text", content };
}

function sizeOf(value: unknown): number {
  return JSON.stringify(value).length;
}

function lengthOfTexts(value: unknown): number {
  if (typeof value === "string") return value.length;
  if (typeof value !== "object" || value === null) return 0;
  return Object.values(value).reduce((sum: number, member) => sum + lengthOfTexts(member), 0);
}

function shortenValue(value: unknown, limits: (typeof valueLimits)[number]): unknown {
  if (typeof value === "string") return truncateText(value, limits.characters);
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return value.slice(0, limits.items).map((item) => shortenValue(item, limits));
  return Object.fromEntries(Object.entries(value).map(([key, member]) => [key, shortenValue(member, limits)]));
}

/** A text has at most this many tokens per character, so a short one needs no estimate. */
const maxTokensPerCharacter = 2;
/** Only this many characters per allowed token are estimated: longer texts never fit, and estimating takes time. */
const maxCharactersPerToken = 16;

/** Shortens a text that is too long to its head and its tail, with a note about the omission between them. */
export function truncateToTokens(text: string, maxTokens: number): string {
  if (text.length * maxTokensPerCharacter <= maxTokens) return text;

  const sample = text.slice(0, maxTokens * maxCharactersPerToken);
  const tokens = estimateTokens(sample);
  if (sample.length === text.length && tokens <= maxTokens) return text;

  let characters = Math.floor((sample.length * maxTokens) / tokens);
  for (let attempt = 0; attempt < 20; attempt++) {
    const { head, tail } = headAndTail(text, characters);
    if (estimateTokens(head + tail) + omissionTokens <= maxTokens) return joinEnds(text, { head, tail });
    characters = Math.floor(characters * 0.8);
  }
  return joinEnds(text, headAndTail(text, 0));
}

/** The estimated size of the note about the omission. */
const omissionTokens = 40;

interface Ends {
  head: string;
  tail: string;
}

function headAndTail(text: string, characters: number): Ends {
  const headEnd = lineEndBefore(text, Math.floor(characters * 0.6));
  const tailStart = lineStartAfter(text, text.length - Math.floor(characters * 0.4));
  return { head: text.slice(0, headEnd), tail: text.slice(tailStart) };
}

function joinEnds(text: string, { head, tail }: Ends): string {
  const omitted = text.length - head.length - tail.length;
  let lines = 0;
  const end = text.length - tail.length;
  for (let at = text.indexOf("\n", head.length); at !== -1 && at < end; at = text.indexOf("\n", at + 1)) lines += 1;
  const size = lines > 1 ? `${lines} lines, ${omitted} characters` : `${omitted} characters`;
  return `${head}\n[… ${size} left out because the result is too long. Ask for a part of it. …]\n${tail}`;
}

/** Prefers a line end shortly before the position, and never splits a surrogate pair. */
function lineEndBefore(text: string, position: number): number {
  const lineEnd = text.lastIndexOf("\n", position);
  if (lineEnd > position - 400 && lineEnd > 0) return lineEnd;
  return isLowSurrogate(text, position) ? position - 1 : position;
}

function lineStartAfter(text: string, position: number): number {
  const lineEnd = text.indexOf("\n", position);
  if (lineEnd >= 0 && lineEnd < position + 400 && lineEnd + 1 < text.length) return lineEnd + 1;
  return isLowSurrogate(text, position) ? position + 1 : position;
}

function isLowSurrogate(text: string, position: number): boolean {
  const unit = text.charCodeAt(position);
  return unit >= 0xdc00 && unit <= 0xdfff;
}

/** Converts a value to JSON data: circular references, deep nesting and binary data are replaced by placeholders. */
export function toJsonValue(value: unknown): unknown {
  return convert(value, []);
}

function convert(value: unknown, ancestors: object[]): unknown {
  if (typeof value === "bigint") return String(value);
  if (typeof value === "function" || typeof value === "symbol") return undefined;
  if (typeof value === "number") return Number.isFinite(value) ? value || 0 : String(value);
  if (typeof value !== "object" || value === null) return value;
  if (ancestors.includes(value)) return "[Circular]";
  if (ancestors.length > 100) return "[Too deep]";

  const inside = [...ancestors, value];
  if (Array.isArray(value)) return value.map((item) => convert(item, inside) ?? null);
  if (value instanceof Set) return [...value].map((item) => convert(item, inside) ?? null);
  if (value instanceof Map)
    return convertMembers(
      [...value].map(([key, member]) => [String(key), member]),
      inside,
    );
  if (value instanceof Error) return { name: value.name, message: value.message };
  if (ArrayBuffer.isView(value)) return `[${value.byteLength} bytes]`;
  if ("toJSON" in value && typeof value.toJSON === "function") return convert(value.toJSON(), inside);
  return convertMembers(Object.entries(value), inside);
}

function convertMembers(entries: [string, unknown][], inside: object[]): Record<string, unknown> {
  const kept = entries.map(([key, member]) => [key, convert(member, inside)] as const);
  return Object.fromEntries(kept.filter(([, member]) => member !== undefined));
}

type FailedResult = ToolResult & { error: NonNullable<ToolResult["error"]> };

/** Creates the result of a failed call. The model receives the message and the suggestion; people see the message. */
export function failedResult(message: string, options: ToolErrorOptions): FailedResult {
  const { code, type, suggestion, details } = new ToolError(message, options);
  return {
    llmContent: suggestion ? `Error: ${message}\n${suggestion}` : `Error: ${message}`,
    value: { kind: "text", content: message },
    error: { type, code, message, ...(suggestion && { suggestion }), ...(details && { details }) },
  };
}

/** Creates the result of a call that was interrupted. Pass `started: false` if it had not started. */
export function interruptedResult(tool: string, { started = true }: { started?: boolean } = {}): ToolResult {
  const message = started
    ? `${tool} was interrupted before it finished.`
    : `${tool} was interrupted before it started.`;
  const known = started ? "Its effects up to that point are unknown." : "It had no effect.";
  return {
    llmContent: `${message} ${known} {"type":"interrupted"}`,
    value: { kind: "json", data: { type: "interrupted" }, summary: "Interrupted" },
    error: { type: "interrupted", code: "INTERRUPTED", message },
  };
}

/** An npm package of tools that throws a ToolError has another copy of the class than the bundle of the app. */
const CopiedToolError = z.object({
  name: z.enum(["ToolError", "BlockedError"]),
  code: ToolErrorCode,
  suggestion: z.string().optional(),
});

/** Converts a thrown value to the result of the call. */
export function resultOfError(error: unknown): ToolResult {
  const message = error instanceof Error ? error.message || error.name : String(error);
  if (error instanceof ToolError) return failedResult(message, error);
  const { code, suggestion } = CopiedToolError.safeParse(error).data ?? {};
  if (code) return failedResult(message, { code, ...(suggestion && { suggestion }) });
  if (error instanceof UserError) return failedResult(message, { code: "EXECUTION_ERROR", type: "user_error" });
  return failedResult(message, { code: errorCodeOf(error) });
}

const errorCodes = new Map<unknown, ToolErrorCode>([
  ["ENOENT", "FILE_NOT_FOUND"],
  ["EEXIST", "FILE_EXISTS"],
  ["EISDIR", "NOT_A_FILE"],
  ["ENOTDIR", "NOT_A_DIRECTORY"],
  ["EACCES", "PERMISSION_DENIED"],
  ["EPERM", "PERMISSION_DENIED"],
  ["EROFS", "READ_ONLY"],
  ["ETIMEDOUT", "TIMEOUT"],
]);

function errorCodeOf(error: unknown): ToolErrorCode {
  if (typeof error !== "object" || error === null) return "EXECUTION_ERROR";
  if ("name" in error && error.name === "TimeoutError") return "TIMEOUT";
  return ("code" in error && errorCodes.get(error.code)) || "EXECUTION_ERROR";
}
