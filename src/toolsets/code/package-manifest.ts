import { z } from "zod";
import { ToolError } from "#domain/errors.ts";
import type { Workspace } from "#domain/workspace.ts";

const names = z.record(z.string(), z.unknown()).catch({}).default({});
const Manifest = z.object({
  scripts: z.record(z.string(), z.string()).catch({}).default({}),
  dependencies: names,
  devDependencies: names,
});

export interface PackageManifest {
  scripts: Record<string, string>;
  /** The names of everything it depends on. */
  dependencies: ReadonlySet<string>;
}

/** A package.json of the tree; undefined when there is none. Throws a ToolError for one that is not JSON. */
export async function readManifest(workspace: Workspace, path: string): Promise<PackageManifest | undefined> {
  if (!(await workspace.exists(path))) return undefined;
  const text = Buffer.from(await workspace.read(path)).toString("utf8");
  try {
    const { scripts, dependencies, devDependencies } = Manifest.parse(JSON.parse(text));
    return { scripts, dependencies: new Set([...Object.keys(dependencies), ...Object.keys(devDependencies)]) };
  } catch (error) {
    throw new ToolError(`${path} is not a package manifest: it cannot be read as JSON.`, {
      code: "EXECUTION_ERROR",
      cause: error,
    });
  }
}
