import { readFile } from "node:fs/promises";
import { createRequire, findPackageJSON, isBuiltin } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { z } from "zod";
import { adaptTool } from "#compat/adapt-tool.ts";
import { ApprovalConfig } from "#domain/approval.ts";
import { messageOf, UserError } from "#domain/errors.ts";
import type { NamedTool } from "#domain/tool.ts";
import { manifestFile } from "#executors/own-files.ts";
import { didYouMean } from "#text/closest-match.ts";
import { applyApprovalSettings, bindApproval, checkApprovalNames } from "#toolsets/approval-settings.ts";
import type { Toolset } from "#toolsets/toolset.ts";

const External = z.strictObject({
  /** The npm package name, with a subpath if the package has several entry points. */
  package: z.string().min(1),
  /** The export that provides the tools. */
  import: z.string().min(1),
  approval: ApprovalConfig.optional(),
});
type External = z.infer<typeof External>;

const config = z.preprocess((given) => [given].flat(), z.array(External).min(1).max(20));

/** Provides tools from npm packages installed by the deployment. They run in this process, with full access. */
export const externalToolset: Toolset<z.infer<typeof config>> = {
  name: "external",
  config,
  async create(given, { workerDirectory, spec: { worker, origin } }) {
    if (workerDirectory === undefined) {
      throw new UserError(
        `The worker ${worker.name} comes from ${origin.owner}/${origin.repo} and uses npm packages. Only the deployment's ` +
          "own workers may use them, because packages run with the full access of Golem Forge.",
      );
    }
    const tools = await Promise.all(given.map((external) => openExternal(external, workerDirectory)));
    return tools.flat();
  },
};

async function openExternal({ package: name, import: exportName, approval }: External, folder: string) {
  const exports = await importPackage(name, folder);
  const imported = await importedVersion(name, folder);
  if (!Object.hasOwn(exports, exportName)) throw new UserError(missingExport(exports, name, exportName));

  const tools = await readTools(exports[exportName], exportName, `${exportName} of ${name}`);
  const names = tools.map((tool) => tool.name);
  checkApprovalNames(approval, names, name);
  return tools.map((tool) => bindApproval(applyApprovalSettings(tool, approval), async () => ({ package: imported })));
}

function missingExport(exports: Record<string, unknown>, name: string, exportName: string): string {
  const exported = Object.keys(exports)
    .filter((key) => key !== "module.exports")
    .sort();
  return (
    `import: ${name} has no export ${exportName}.${didYouMean(exportName, exported)} ` +
    `It exports: ${exported.slice(0, 50).join(", ") || "nothing"}.`
  );
}

const packageName = /^(?:@[a-z0-9~-][\w.~-]*\/)?[a-z0-9~-][\w.~-]*(?:\/[\w~-][\w.~-]*)*$/i;

/**
 * Imports a package installed with this program or with the workers in `folder`. Throws a UserError that explains how to
 * install a missing package, or why an installed package fails to load.
 */
async function importPackage(name: string, folder: string): Promise<Record<string, unknown>> {
  if (!packageName.test(name) || name.split("/").includes("..") || isBuiltin(name)) {
    throw new UserError(`package: ${name} is not the name of an npm package, such as @acme/search-tools.`);
  }
  try {
    return await import(resolveFrom(name, folder) ?? name);
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (isMissing(code, message, name)) {
      throw new UserError(
        `package: ${name} is not installed. Run npm install ${packageOf(name)} where Golem Forge is installed.`,
        {
          cause: error,
        },
      );
    }
    throw new UserError(`package: ${name} failed to load: ${message}`, { cause: error });
  }
}

/** Resolves the package from the workers' folder; undefined if it is not installed there. */
function resolveFrom(name: string, folder: string): string | undefined {
  try {
    return pathToFileURL(createRequire(join(folder, "worker.js")).resolve(name)).href;
  } catch {
    return undefined;
  }
}

const Manifest = z.object({ version: z.string().default("unknown") });
/** The versions of imported packages, by their package.json: a newer one is imported only after a restart. */
const importedVersions = new Map<string, Promise<string>>();

/** Returns a package's name and version, as in `@acme/tools@1.2.0`. */
async function importedVersion(name: string, folder: string): Promise<string> {
  const manifest = findManifest(name, pathToFileURL(join(folder, "worker.js"))) ?? findManifest(name, manifestFile);
  const read = async () => Manifest.parse(manifest ? JSON.parse(await readFile(manifest, "utf8")) : {}).version;
  return `${packageOf(name)}@${await importedVersions.getOrInsertComputed(manifest ?? name, read)}`;
}

function findManifest(name: string, from: URL): string | undefined {
  try {
    return findPackageJSON(packageOf(name), from);
  } catch {
    return undefined;
  }
}

function isMissing(code: string | undefined, message: string, name: string): boolean {
  return (code === "ERR_MODULE_NOT_FOUND" || code === "MODULE_NOT_FOUND") && message.includes(`'${packageOf(name)}`);
}

function packageOf(name: string): string {
  return name
    .split("/")
    .slice(0, name.startsWith("@") ? 2 : 1)
    .join("/");
}

const toolName = /^[A-Za-z_][\w-]{0,63}$/;

/**
 * Reads the tools that a package exports: a list, a record of AI SDK tools by name, one tool, an object with `getTools()`,
 * or a function or class that returns one of these. Throws a UserError, which names the export `label`, for anything else.
 */
async function readTools(exported: unknown, name: string, label: string): Promise<NamedTool[]> {
  const given = await unwrap(exported, label);
  const tools = Array.isArray(given)
    ? given.map((tool, index) => toNamedTool(tool, undefined, `entry ${index + 1} of ${label}`))
    : isTool(given)
      ? [toNamedTool(given, name, label)]
      : Object.entries(given ?? {}).map(([key, tool]) => toNamedTool(tool, key, `${key} of ${label}`));
  if (tools.length === 0) throw new UserError(`${label} has no tools: it is ${describeValue(given)}.`);
  return tools;
}

async function unwrap(exported: unknown, label: string): Promise<unknown> {
  let given = exported;
  // A function may return an object with getTools(), which returns a list.
  for (let times = 0; times < 3; times += 1) {
    if (typeof given === "function") given = await callExport(given as Constructor, label);
    else if (hasGetTools(given)) given = await given.getTools();
    else break;
  }
  if (typeof given !== "object" || given === null) {
    throw new UserError(
      `${label} must be a list or record of tools, an object with getTools(), or a function that returns one of these; ` +
        `it is ${describeValue(given)}.`,
    );
  }
  return given;
}

type Constructor = (() => unknown) & (new () => unknown) & { prototype?: unknown };

async function callExport(given: Constructor, label: string): Promise<unknown> {
  try {
    return hasGetTools(given.prototype) ? new given() : await given();
  } catch (error) {
    const why = messageOf(error);
    throw new UserError(`${label} failed to return its tools: ${why}`, { cause: error });
  }
}

function hasGetTools(value: unknown): value is { getTools(): unknown } {
  return isObject(value) && "getTools" in value && typeof value.getTools === "function";
}

function isTool(value: unknown): value is Omit<NamedTool, "name"> & { name?: string } {
  if (!isObject(value) || !("execute" in value) || !("inputSchema" in value)) return false;
  return typeof value.execute === "function" && value.inputSchema !== undefined && value.inputSchema !== null;
}

function isObject(value: unknown): value is object {
  return typeof value === "object" && value !== null;
}

function toNamedTool(value: unknown, key: string | undefined, label: string): NamedTool {
  if (!isTool(value))
    throw new UserError(`${label} is not a tool with inputSchema and execute: it is ${describeValue(value)}.`);
  const name = key ?? value.name;
  if (typeof name !== "string" || !toolName.test(name)) {
    throw new UserError(`${label} has no valid tool name: use up to 64 letters, digits, - and _.`);
  }
  const { description } = value;
  return {
    ...adaptTool(value as NamedTool),
    name,
    description: typeof description === "string" && description !== "" ? description : `The tool ${name} of ${label}.`,
    // Executing the call a second time may not be safe.
    afterCrash: value.afterCrash ?? "report",
  };
}

function describeValue(value: unknown): string {
  if (value === null || value === undefined) return String(value);
  if (Array.isArray(value)) return value.length === 0 ? "an empty list" : "a list";
  if (typeof value !== "object") return `a ${typeof value}`;
  const keys = Object.keys(value);
  return keys.length === 0 ? "an empty object" : `an object with ${keys.slice(0, 20).join(", ")}`;
}
