import { type FlexibleSchema, type JSONSchema7, jsonSchema } from "ai";
import type { ApprovalConfig } from "#domain/approval.ts";
import type { JsonSchema } from "#domain/json-schema.ts";
import type { NamedTool, ToolContext } from "#domain/tool.ts";
import type { Workspace } from "#domain/workspace.ts";
import { applyApprovalSettings } from "#toolsets/approval-settings.ts";
import type { ToolResultDisplay } from "./foreign-results.ts";
import { toToolResult } from "./to-tool-result.ts";

/** The name other tool systems give to `needsApproval`. */
// biome-ignore lint/suspicious/noExplicitAny: each tool names the arguments it takes
export interface RequiresApproval<Input = any> {
  requiresApproval?: boolean | ((args: Input) => boolean | Promise<boolean>);
}

/** A tool as an object whose schemas may be plain JSON Schema and whose result may have any of the supported shapes. */
export interface PlainTool extends RequiresApproval, Omit<NamedTool, "inputSchema" | "outputSchema" | "execute"> {
  // biome-ignore lint/suspicious/noExplicitAny: as in NamedTool
  inputSchema: FlexibleSchema<any> | JsonSchema | JSONSchema7;
  // biome-ignore lint/suspicious/noExplicitAny: as in NamedTool
  outputSchema?: FlexibleSchema<any> | JsonSchema | JSONSchema7;
  // biome-ignore lint/suspicious/noExplicitAny: a program may call it without a context
  execute: (args: any, context?: any) => any;
}

/** A tool written as a class, such as a BaseTool. */
export interface ClassTool {
  readonly name: string;
  readonly description: string;
  /** Runs the tool for the program itself, without approval. */
  // biome-ignore lint/suspicious/noExplicitAny: each class names the arguments it takes
  execute(args: any): Promise<unknown>;
  toNamedTool(): NamedTool;
}

/** Every form in which a program may supply a tool. */
export type ForeignTool = NamedTool | PlainTool | ClassTool;

/** Turns any supported tool into a NamedTool, and translates `requiresApproval`, JSON Schema and foreign results. */
export function adaptTool(given: ForeignTool): NamedTool {
  if (isClassTool(given)) return given.toNamedTool();

  const tool: Omit<PlainTool, "execute"> & Partial<Pick<PlainTool, "execute">> = given;
  const { needsApproval = tool.requiresApproval, execute, preview, approvalReason } = tool;
  const optional = {
    outputSchema: tool.outputSchema && toSchema(tool.outputSchema),
    execute:
      execute &&
      (async (args: unknown, context: ToolContext) =>
        toToolResult(await lastYielded(execute.call(tool, args, withOtherNames(context))))),
    needsApproval: typeof needsApproval === "function" ? needsApproval.bind(tool) : needsApproval,
    preview: preview?.bind(tool),
    approvalReason: approvalReason?.bind(tool),
    manualExecution: tool.manualExecution,
    aliases: tool.aliases,
    readOnly: tool.readOnly,
    afterCrash: typeof tool.afterCrash === "function" ? tool.afterCrash.bind(tool) : tool.afterCrash,
    answeredBy: tool.answeredBy,
  };
  return {
    name: tool.name,
    description: tool.description,
    inputSchema: toSchema(tool.inputSchema),
    ...Object.fromEntries(Object.entries(optional).filter(([, value]) => value !== undefined)),
  };
}

/** Gives the sandbox of a call the names that tools written for other programs use, besides its own. */
function withOtherNames(context: ToolContext): ToolContext {
  const named = (sandbox: Workspace) => {
    const otherNames: Partial<Record<PropertyKey, unknown>> = {
      readBinary: (path: string) => sandbox.readBytes(path),
      writeBinary: (path: string, content: Uint8Array) => sandbox.write(path, content),
      delete: (path: string) => sandbox.remove(path),
      async stat(path: string) {
        const entry = await sandbox.stat(path);
        const { modified, type } = entry;
        return { ...entry, modifiedAt: modified, createdAt: modified, isDirectory: type === "directory" };
      },
    };
    return new Proxy(sandbox, {
      get(_, name) {
        const member = otherNames[name] ?? Reflect.get(sandbox, name);
        return typeof member === "function" ? member.bind(sandbox) : member;
      },
    });
  };
  // Reading the sandbox of a call without one fails, so it is left to the tool.
  const sandbox = { enumerable: true, get: () => context.sandbox && named(context.sandbox) };
  return Object.defineProperties({}, { ...Object.getOwnPropertyDescriptors(context), sandbox }) as ToolContext;
}

/** True for a tool object: a name, an input schema and an `execute` function. */
export function isNamedTool(value: unknown): value is NamedTool {
  if (typeof value !== "object" || value === null) return false;

  const { name, inputSchema, execute } = value as Partial<NamedTool>;
  const isSchema = (typeof inputSchema === "object" || typeof inputSchema === "function") && inputSchema !== null;
  return typeof name === "string" && name !== "" && isSchema && typeof execute === "function";
}

export function isClassTool(tool: unknown): tool is ClassTool {
  return typeof (tool as Partial<ClassTool> | null | undefined)?.toNamedTool === "function";
}

const schemaKeywords = ["type", "properties", "$schema", "$ref", "allOf", "anyOf", "oneOf", "enum", "const"];

/** Wraps a plain JSON Schema object for the AI SDK; returns other schemas unchanged. */
function toSchema(schema: PlainTool["inputSchema"]): NamedTool["inputSchema"] {
  if (typeof schema !== "object" || schema === null) return schema;
  const belongsToLibrary = ["_zod", "_def", "~standard", "jsonSchema"].some((key) => key in schema);
  const isPlain = !belongsToLibrary && schemaKeywords.some((keyword) => Object.hasOwn(schema, keyword));
  return isPlain ? jsonSchema<unknown>(schema as JSONSchema7) : (schema as NamedTool["inputSchema"]);
}

/** Returns the last yielded value of a generator, which is its result in the AI SDK. Returns other values unchanged. */
async function lastYielded(returned: unknown): Promise<unknown> {
  if (typeof returned !== "object" || returned === null || !(Symbol.asyncIterator in returned)) return returned;

  let last: unknown;
  for await (const value of returned as AsyncIterable<unknown>) last = value;
  return last;
}

/**
 * Determines if a tool needs approval: by its own setting, or else by the configuration for its name, or else by the
 * configuration's default, or else `ask`. A blocked tool throws a BlockedError.
 */
export function wrapWithDefaultApproval<T extends NamedTool>(
  tool: T & RequiresApproval,
  approvalConfig?: ApprovalConfig,
): T & Pick<NamedTool, "needsApproval"> {
  if (tool.needsApproval !== undefined) return tool;
  if (tool.requiresApproval !== undefined) return { ...tool, needsApproval: tool.requiresApproval };
  return applyApprovalSettings(tool, approvalConfig);
}

/** A result of another tool system: with `success`, with `llmContent` and `returnDisplay`, or with `ok` and `value`. */
export interface ForeignResult {
  // biome-ignore lint/suspicious/noExplicitAny: always present in one system, absent in the others
  success?: any;
  ok?: boolean;
  // biome-ignore lint/suspicious/noExplicitAny: a value has any type
  value?: any;
  llmContent?: string;
  /** A program may have displays of further types. */
  returnDisplay?: ToolResultDisplay | { type: string };
  // biome-ignore lint/suspicious/noExplicitAny: a string in one system, an object in the others
  error?: any;
  error_type?: string;
  suggestion?: string;
  // biome-ignore lint/suspicious/noExplicitAny: a flat result has the tool's own fields
  [field: string]: any;
}
