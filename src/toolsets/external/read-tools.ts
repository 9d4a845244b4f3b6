import { adaptTool } from "#compat/adapt-tool.ts";
import { UserError } from "#domain/errors.ts";
import type { NamedTool } from "#domain/tool.ts";

type Fields = Record<string, unknown>;

const toolName = /^[A-Za-z_][\w-]{0,63}$/;

/**
 * The tools an export of a package gives: a list of them, a record of AI SDK tools by name, one tool, something with
 * `getTools()`, or a function or class that gives one of these. `place` names the export in the UserError for anything else.
 */
export async function readTools(exported: unknown, name: string, place: string): Promise<NamedTool[]> {
  const given = await open(exported, place);
  const tools = Array.isArray(given)
    ? given.map((tool, index) => toNamedTool(tool, undefined, `entry ${index + 1} of ${place}`))
    : isTool(given)
      ? [toNamedTool(given, name, place)]
      : Object.entries((given ?? {}) as Fields).map(([key, tool]) => toNamedTool(tool, key, `${key} of ${place}`));
  if (tools.length === 0) throw new UserError(`${place} gives no tools: it is ${describe(given)}.`);
  return tools;
}

async function open(exported: unknown, place: string): Promise<unknown> {
  let given = exported;
  // A function may give an object with getTools(), and that a list.
  for (let times = 0; times < 3; times += 1) {
    if (typeof given === "function") given = await call(given as Constructor, place);
    else if (hasGetTools(given)) given = await given.getTools();
    else break;
  }
  if (typeof given !== "object" || given === null) {
    throw new UserError(
      `${place} must be a list or record of tools, an object with getTools(), or a function that gives one of these; ` +
        `it is ${describe(given)}.`,
    );
  }
  return given;
}

type Constructor = (() => unknown) & (new () => unknown) & { prototype?: unknown };

async function call(given: Constructor, place: string): Promise<unknown> {
  try {
    return hasGetTools(given.prototype) ? new given() : await given();
  } catch (error) {
    const why = error instanceof Error ? error.message : error;
    throw new UserError(`${place} failed to give its tools: ${why}`, { cause: error });
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

function toNamedTool(value: unknown, key: string | undefined, place: string): NamedTool {
  if (!isTool(value))
    throw new UserError(`${place} is no tool with inputSchema and execute: it is ${describe(value)}.`);
  const name = key ?? value.name;
  if (typeof name !== "string" || !toolName.test(name)) {
    throw new UserError(`${place} has no name a tool can have: letters, digits, - and _, at most 64.`);
  }
  const { description } = value;
  return {
    ...adaptTool(value as NamedTool),
    name,
    description: typeof description === "string" && description !== "" ? description : `The tool ${name} of ${place}.`,
    // What it does outside is not known to be harmless twice.
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
