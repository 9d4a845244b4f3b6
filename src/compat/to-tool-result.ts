import { ToolErrorCode, ToolErrorType } from "#domain/errors.ts";
import { type DisplayHints, isWellKnown, isWellKnownKind, ResultValue, ToolResult } from "#domain/result.ts";
import { isObject } from "#text/json-values.ts";
import { describeForModel, failedResult, toJsonValue } from "#toolsets/tool-result.ts";
import { fromOkResult, fromReturnDisplay, type OkResult, type ToolResultDisplay } from "./foreign-results.ts";

type Fields = Record<string, unknown>;

/**
 * Converts any return value of a tool to a ToolResult: ToolResult and ResultValue objects are kept, result shapes of other
 * tool systems (`{ llmContent, returnDisplay }`, `{ ok, … }`, `{ success: false, error }`) are translated, strings become
 * text, and everything else becomes JSON. Markdown in a text and the MIME type of a custom value become display hints.
 */
export function toToolResult(returned: unknown): ToolResult {
  const result = convert(returned);
  return { ...result, value: withImpliedHints(result.value) };
}

function convert(returned: unknown): ToolResult {
  const output = toJsonValue(returned);
  if (output === undefined) return { llmContent: "Done.", value: { kind: "text", content: "Done." } };
  if (typeof output === "string") return { llmContent: output, value: { kind: "text", content: output } };
  if (isObject(output)) {
    const shaped = readShaped(output);
    if (shaped) return shaped;
  }
  return fromValue({ kind: "json", data: output });
}

function readShaped(output: Fields): ToolResult | undefined {
  if (hasText(output, "llmContent")) return readResult(output);
  if (hasText(output, "kind")) {
    const value = readValue(output);
    return value && fromValue(value);
  }
  if (isOkResult(output)) return fromOkResult(output);
  if (output.success === false && typeof output.error === "string" && output.error !== "") {
    return failedResult(output.error, {
      code: "EXECUTION_ERROR",
      type: ToolErrorType.catch("system_error").parse(output.error_type),
      ...(typeof output.suggestion === "string" && { suggestion: output.suggestion }),
    });
  }
  return undefined;
}

function readResult(output: Fields & Record<"llmContent", string>): ToolResult | undefined {
  const parsed = ToolResult.safeParse(output);
  if (parsed.success) return parsed.data;
  if (!("value" in output) && !("returnDisplay" in output)) return undefined;

  const { llmContent, error } = output;
  const value = readDisplay(output) ?? { kind: "text" as const, content: llmContent };
  return { llmContent, value, ...(error !== undefined && error !== null && { error: readError(error, llmContent) }) };
}

function readDisplay({ value, returnDisplay }: Fields): ResultValue | undefined {
  if (isObject(value) && hasText(value, "kind")) return readValue(value);
  if (returnDisplay === undefined || returnDisplay === null) return undefined;

  try {
    // The schema rejects anything that is not a display.
    const parsed = ResultValue.safeParse(fromReturnDisplay(returnDisplay as ToolResultDisplay));
    if (parsed.success) return parsed.data;
  } catch {
    // An unknown display is kept as data.
  }
  return { kind: "json", data: returnDisplay, display: { preferredView: "tree" } };
}

function readError(error: unknown, fallback: string): NonNullable<ToolResult["error"]> {
  const fields: Fields = isObject(error) ? error : { message: error };
  const { code, message, suggestion, details } = fields;
  const type = ToolErrorType.safeParse(fields.type);
  return failedResult(typeof message === "string" && message !== "" ? message : fallback, {
    code: ToolErrorCode.catch(ToolErrorCode.catch("EXECUTION_ERROR").parse(fields.type)).parse(code),
    ...(type.success && { type: type.data }),
    ...(typeof suggestion === "string" && { suggestion }),
    ...(isObject(details) && { details }),
  }).error;
}

function readValue(output: Fields & Record<"kind", string>): ResultValue | undefined {
  // Custom values store their data in `data`; any other object with a `kind` member is plain data.
  if (!isWellKnownKind(output.kind) && !("data" in output)) return undefined;

  const parsed = ResultValue.safeParse(output);
  if (parsed.success) return parsed.data;

  // An unknown display hint is dropped, so that the value keeps its kind.
  const { display: _, ...plain } = output;
  return ResultValue.safeParse(plain).data;
}

function withImpliedHints(value: ResultValue): ResultValue {
  const { preferredView, language } = value.display ?? {};
  const hints = preferredView === undefined && language === undefined ? impliedHints(value) : undefined;
  return hints ? { ...value, display: { ...value.display, ...hints } } : value;
}

function impliedHints(value: ResultValue): DisplayHints | undefined {
  if (!isWellKnown(value)) return value.mimeType === undefined ? undefined : hintsOfMimeType(value.mimeType);
  return value.kind === "text" && isMarkdown(value.content) ? { preferredView: "markdown" } : undefined;
}

/** Returns the hints for a type such as `text/markdown; charset=utf-8` or `text/x-diff`; undefined for other types. */
function hintsOfMimeType(mimeType: string): DisplayHints | undefined {
  const [, name] = /^(?:text|application)\/(?:x-)?([a-z0-9+#-]{1,20})\s*(?:;|$)/i.exec(mimeType) ?? [];
  const language = name?.toLowerCase();
  if (language === undefined || language === "plain") return undefined;
  if (language === "markdown") return { preferredView: "markdown" };
  return { preferredView: "code", language: language === "patch" ? "diff" : language };
}

/** A heading, which has blank lines around it and so is no comment in code; a fence; bold text; a link; a table. */
const markdownPatterns = [
  /(?:^|\n[ \t]*\n)#{1,6} \S[^\n]*(?:\n[ \t]*\n|\n?$)/,
  /^```/m,
  /(?:^|\s)\*\*\w[^*\n]{0,200}\*\*(?!\w)/,
  /\[[^\][\n]{1,200}\]\(https?:\/\/[^\s)]{1,500}\)/,
  /^\|(?: ?:?-{2,}:? ?\|)+$/m,
];
const maxMarkdownSample = 10_000;

function isMarkdown(text: string): boolean {
  const sample = text.slice(0, maxMarkdownSample);
  return markdownPatterns.some((pattern) => pattern.test(sample));
}

function isOkResult(output: Fields): output is Fields & OkResult<unknown> {
  if (output.ok === true) return Object.keys(output).length === 2 && "value" in output;
  return output.ok === false && isObject(output.error) && typeof output.error.message === "string";
}

function fromValue(value: ResultValue): ToolResult {
  return { llmContent: describeForModel(value), value };
}

function hasText<Key extends string>(output: Fields, key: Key): output is Fields & Record<Key, string> {
  return typeof output[key] === "string";
}
