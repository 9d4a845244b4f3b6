import { adaptTool } from "#compat/adapt-tool.ts";
import { UserError } from "#domain/errors.ts";
import type { NamedTool } from "#domain/tool.ts";

type Fields = Record<string, unknown>;

const toolName = /^[A-Za-z_][\w-]{0,63}$/;

/**
 * Reads the tools that a package exports: a list, a record of AI SDK tools by name, one tool, an object with `getTools()`,
 * or a function or class that returns one of these. Throws a UserError, which names the export `label`, for anything else.
 */
export async function readTools(exported: unknown, name: string, label: string): Promise<NamedTool[]> {
  const given = await unwrap(exported, label);
  const tools = Array.isArray(given)
    ? given.map((tool, index) => toNamedTool(tool, undefined, `entry ${index + 1} of ${label}`))
    : isTool(given)
      ? [toNamedTool(given, name, label)]
      : Object.entries((given ?? {}) as Fields).map(([key, tool]) => toNamedTool(tool, key, `${key} of ${label}`));
  if (tools.length === 0) throw new UserError(`${label} has no tools: it is ${describe(given)}.`);
  return tools;
}

async function unwrap(exported: unknown, label: string): Promise<unknown> {
  let given = exported;
  // A function may return an object with getTools(), which returns a list.
  for (let times = 0; times < 3; times += 1) {
    if (typeof given === "function") given = await call(given as Constructor, label);
    else if (hasGetTools(given)) given = await given.getTools();
    else break;
  }
  if (typeof given !== "object" || given === null) {
    throw new UserError(
      `${label} must be a list or record of tools, an object with getTools(), or a function that returns one of these; ` +
        `it is ${describe(given)}.`,
    );
  }
  return given;
}

type Constructor = (() => unknown) & (new () => unknown) & { prototype?: unknown };

async function call(given: Constructor, label: string): Promise<unknown> {
  try {
    return hasGetTools(given.prototype) ? new given() : await given();
  } catch (error) {
    const why = error instanceof Error ? error.message : error;
    throw new UserError(`${label} failed to return its tools: ${why}`, { cause: error });
  }
}

function hasGetTools(value: unknown): value is { getTools(): unknown } {
  return typeof (value as { getTools?: unknown } | null | undefined)?.getTools === "function";
}

function isTool(value: unknown): value is Omit<NamedTool, "name"> & { name?: string } {
  if (typeof value !== "object" || value === null) return false;
  const { execute, inputSchema } = value as Fields;
  return typeof execute === "function" && inputSchema !== undefined && inputSchema !== null;
}

function toNamedTool(value: unknown, key: string | undefined, label: string): NamedTool {
  if (!isTool(value))
    throw new UserError(`${label} is not a tool with inputSchema and execute: it is ${describe(value)}.`);
  const name = key ?? value.name;
  if (typeof name !== "string" || !toolName.test(name)) {
    throw new UserError(`${label} has no valid tool name: use up to 64 letters, digits, - and _.`);
  }
  const { description } = value;
  return {
    ...adaptTool(value as NamedTool),
    name,
    description: typeof description === "string" && description !== "" ? description : `The tool ${name} of ${label}.`,
    // A second execution may not be safe.
    afterCrash: value.afterCrash ?? "report",
  };
}

function describe(value: unknown): string {
  if (value === null || value === undefined) return String(value);
  if (Array.isArray(value)) return value.length === 0 ? "an empty list" : "a list";
  if (typeof value !== "object") return `a ${typeof value}`;
  const keys = Object.keys(value);
  return keys.length === 0 ? "an empty object" : `an object with ${keys.slice(0, 20).join(", ")}`;
}
