import { createRequire, isBuiltin } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { UserError } from "#domain/errors.ts";

const packageName = /^(?:@[a-z0-9~-][\w.~-]*\/)?[a-z0-9~-][\w.~-]*(?:\/[\w~-][\w.~-]*)*$/i;

/**
 * Imports a package installed with this program or with the workers in `folder`. Throws a UserError that explains how to
 * install a missing package, or why an installed package fails to load.
 */
export async function importPackage(name: string, folder: string): Promise<Record<string, unknown>> {
  if (!packageName.test(name) || name.split("/").includes("..") || isBuiltin(name)) {
    throw new UserError(`package: ${name} is not the name of an npm package, such as @vercel/ai-tools.`);
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

function isMissing(code: string | undefined, message: string, name: string): boolean {
  return (code === "ERR_MODULE_NOT_FOUND" || code === "MODULE_NOT_FOUND") && message.includes(`'${packageOf(name)}`);
}

function packageOf(name: string): string {
  return name
    .split("/")
    .slice(0, name.startsWith("@") ? 2 : 1)
    .join("/");
}
