import { z } from "zod";
import { adaptTool } from "#compat/adapt-tool.ts";
import type { NamedTool } from "#domain/tool.ts";
import { compileSchema, type ToolSchema } from "#domain/tool-schema.ts";
import { closestMatch } from "#text/closest-match.ts";
import type { ToolDescription } from "#toolsets/custom/messages.ts";
import { docComment } from "./doc-comment.ts";

/** A tool of the module, ready to be called. */
export interface HostedTool {
  description: ToolDescription;
  tool: NamedTool;
  input: ToolSchema;
  output: ToolSchema | undefined;
}

interface Module {
  exports: Record<string, unknown>;
  /** As the worker file calls it. */
  shown: string;
  source: string;
}

/** Makes a tool of an export. Throws an Error that names module, export and what is there. */
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

function readExport({ exports, shown, source }: Module, exportName: string): NamedTool {
  if (!Object.hasOwn(exports, exportName)) throw new Error(missingExport(exports, shown, exportName));

  const found = exports[exportName];
  if (typeof found === "function") {
    const schemaName = `${exportName}Schema`;
    if (!Object.hasOwn(exports, schemaName)) {
      throw new Error(
        `Schema '${schemaName}' required for function '${exportName}' in ${shown}: export const ${schemaName} = ` +
          `z.object({ … }). ${whatIsThere(exports)}`,
      );
    }
    const inputSchema = exports[schemaName] as NamedTool["inputSchema"];
    const described = found as { description?: unknown };
    const description =
      ownDescription(described.description) ??
      ownDescription((inputSchema as { description?: unknown } | undefined)?.description) ??
      docComment(source, exportName) ??
      `Custom tool: ${exportName}`;
    return { name: exportName, description, inputSchema, execute: (args, context) => found(args, context) };
  }
  if (isToolObject(found)) {
    return Object.assign(Object.create(found), {
      name: found.name ?? exportName,
      description: ownDescription(found.description) ?? docComment(source, exportName) ?? `Custom tool: ${exportName}`,
    });
  }
  throw new Error(`Export '${exportName}' in ${shown} must be a function or tool object, it is ${whatItIs(found)}.`);
}

function isToolObject(value: unknown): value is Partial<NamedTool> {
  if (typeof value !== "object" || value === null) return false;
  const { execute, inputSchema } = value as Partial<NamedTool>;
  return typeof execute === "function" && inputSchema !== undefined && inputSchema !== null;
}

async function readSchema(schema: unknown, place: string): Promise<ToolSchema> {
  const isSchema = (typeof schema === "object" || typeof schema === "function") && schema !== null;
  if (!isSchema) throw new Error(`${place} must be a schema such as z.object({ … }), it is ${whatItIs(schema)}.`);
  try {
    return await compileSchema(schema as NamedTool["inputSchema"]);
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw new Error(`${place} must be a schema such as z.object({ … }), and cannot be understood: ${why}`);
  }
}

function missingExport(exports: Record<string, unknown>, shown: string, exportName: string): string {
  const near = closestMatch(exportName, Object.keys(exports));
  const hint = near ? ` Did you mean '${near}'?` : "";
  return `Tool '${exportName}' not found in ${shown}.${hint} ${whatIsThere(exports)}`;
}

function whatIsThere(exports: Record<string, unknown>): string {
  const names = Object.keys(exports).sort();
  return names.length > 0 ? `It exports: ${names.join(", ")}.` : "It exports nothing.";
}

function whatItIs(value: unknown): string {
  if (value === null || value === undefined) return String(value);
  if (Array.isArray(value)) return "a list";
  if (value instanceof z.ZodType) return "a schema";
  if (typeof value !== "object") return `a ${typeof value}`;
  const keys = Object.keys(value);
  return `an object with ${keys.length > 0 ? keys.join(", ") : "nothing in it"}, and needs inputSchema and execute`;
}

function ownDescription(value: unknown): string | undefined {
  return typeof value === "string" && value.trim() !== "" ? value : undefined;
}
