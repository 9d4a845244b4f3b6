import { z } from "zod";
import { adaptTool, type ClassTool, type ForeignTool, isClassTool } from "#compat/adapt-tool.ts";
import type { NamedTool } from "#domain/tool.ts";
import { compileSchema, type ToolSchema } from "#domain/tool-schema.ts";
import { closestMatch } from "#text/closest-match.ts";
import type { ToolDescription } from "#toolsets/custom/messages.ts";
import { ToolEvents } from "#toolsets/tool-events.ts";

/** A tool of the module, ready to be called. */
export interface HostedTool {
  description: ToolDescription;
  tool: NamedTool;
  input: ToolSchema;
  output: ToolSchema | undefined;
}

interface Module {
  exports: Record<string, unknown>;
  /** The name in the worker file. */
  shown: string;
  source: string;
}

/** Creates a tool from an export. Throws an Error that names the module, the export and the problem. */
export async function hostTool(module: Module, exportName: string): Promise<HostedTool> {
  const tool = adaptTool(readExport(module, exportName));
  const place = `'${exportName}' in ${module.shown}`;
  const input = await readSchema(tool.inputSchema, `The input schema of ${place}`);
  const output = tool.outputSchema && (await readSchema(tool.outputSchema, `The output schema of ${place}`));
  const { needsApproval, manualExecution, aliases, readOnly, afterCrash } = tool;
  return {
    tool,
    input,
    output,
    description: {
      exportName,
      name: tool.name,
      description: tool.description,
      inputSchema: input.json as Record<string, unknown>,
      ...(output && { outputSchema: output.json as Record<string, unknown> }),
      ...(needsApproval !== undefined && {
        needsApproval: typeof needsApproval === "function" ? "rule" : needsApproval !== false,
      }),
      hasPreview: typeof tool.preview === "function",
      hasReason: typeof tool.approvalReason === "function",
      ...(manualExecution && { manualExecution }),
      ...(aliases && { aliases: [...aliases] }),
      ...(readOnly !== undefined && { readOnly }),
      ...(afterCrash && { afterCrash }),
    },
  };
}

function readExport({ exports, shown, source }: Module, exportName: string): ForeignTool {
  if (!Object.hasOwn(exports, exportName)) throw new Error(missingExport(exports, shown, exportName));

  const found = exports[exportName];
  if (isClassTool(found)) return found;
  if (isToolClass(found)) return new found(new ToolEvents());
  const comment = docComment(source, exportName) ?? `Custom tool: ${exportName}`;
  if (typeof found === "function") {
    const schemaName = `${exportName}Schema`;
    if (!Object.hasOwn(exports, schemaName)) {
      throw new Error(
        `Schema '${schemaName}' required for function '${exportName}' in ${shown}: export const ${schemaName} = ` +
          `z.object({ … }). ${listExports(exports)}`,
      );
    }
    const inputSchema = exports[schemaName] as NamedTool["inputSchema"];
    const description =
      descriptionOf(found as { description?: unknown }) ??
      descriptionOf(inputSchema as { description?: unknown } | undefined) ??
      comment;
    return { name: exportName, description, inputSchema, execute: (...call: unknown[]) => found(...call) };
  }
  if (isToolObject(found)) {
    const [name, description] = [found.name ?? exportName, descriptionOf(found) ?? comment];
    return Object.assign(Object.create(found), { name, description });
  }
  throw new Error(`Export '${exportName}' in ${shown} must be a function or tool object, it is ${describe(found)}.`);
}

/** True for a class whose objects are tools. They take the stream of their events, or nothing. */
function isToolClass(value: unknown): value is new (events: ToolEvents) => ClassTool {
  return typeof value === "function" && isClassTool(value.prototype);
}

function isToolObject(value: unknown): value is Partial<NamedTool> {
  if (typeof value !== "object" || value === null) return false;
  const { execute, inputSchema } = value as Partial<NamedTool>;
  return typeof execute === "function" && inputSchema !== undefined && inputSchema !== null;
}

async function readSchema(schema: unknown, place: string): Promise<ToolSchema> {
  const expected = "a schema such as z.object({ … }) or a JSON Schema";
  const isSchema = (typeof schema === "object" || typeof schema === "function") && schema !== null;
  if (!isSchema) throw new Error(`${place} must be ${expected}, it is ${describe(schema)}.`);
  try {
    return await compileSchema(schema as NamedTool["inputSchema"]);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new Error(`${place} must be ${expected}, and is invalid: ${reason}`);
  }
}

function missingExport(exports: Record<string, unknown>, shown: string, exportName: string): string {
  const near = closestMatch(exportName, Object.keys(exports));
  const hint = near ? ` Did you mean '${near}'?` : "";
  return `Tool '${exportName}' not found in ${shown}.${hint} ${listExports(exports)}`;
}

function listExports(exports: Record<string, unknown>): string {
  const names = Object.keys(exports).sort();
  return names.length > 0 ? `It exports: ${names.join(", ")}.` : "It exports nothing.";
}

function describe(value: unknown): string {
  if (value === null || value === undefined) return String(value);
  if (Array.isArray(value)) return "a list";
  if (value instanceof z.ZodType) return "a schema";
  if (typeof value !== "object") return `a ${typeof value}`;
  const keys = Object.keys(value);
  return `an object with ${keys.length > 0 ? keys.join(", ") : "nothing in it"}, and needs inputSchema and execute`;
}

function descriptionOf(value: { description?: unknown } | undefined): string | undefined {
  const description = value?.description;
  return typeof description === "string" && description.trim() !== "" ? description : undefined;
}

/** Returns the doc comment of an export up to its first tag, on one line. */
function docComment(source: string, name: string): string | undefined {
  const escaped = name.replaceAll("$", "\\$");
  const exported = new RegExp(
    `/\\*\\*((?:(?!\\*/)[\\s\\S])*)\\*/\\s*export\\s+(?:async\\s+)?(?:function\\s*\\*?|const|let|var)\\s+${escaped}(?![\\w$])`,
  );
  const comment = exported.exec(source)?.[1];
  if (comment === undefined) return undefined;

  const lines = comment.split("\n").map((line) => line.replace(/^\s*\*?\s?/, "").trim());
  const tags = lines.findIndex((line) => line.startsWith("@"));
  const text = lines
    .slice(0, tags === -1 ? undefined : tags)
    .join(" ")
    .replace(/\s+/g, " ")
    .trim();
  return text || undefined;
}
