import { createRequire, isBuiltin } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { UserError } from "#domain/errors.ts";

const packageName = /^(?:@[a-z0-9~-][\w.~-]*\/)?[a-z0-9~-][\w.~-]*(?:\/[\w~-][\w.~-]*)*$/i;

/**
 * Imports a package that is installed with this program or beside the workers in `folder`. Throws a UserError that says
 * how to install one that is not there, and why one that is there does not load.
 */
export async function importPackage(name: string, folder: string): Promise<Record<string, unknown>> {
  if (!packageName.test(name) || name.split("/").includes("..") || isBuiltin(name)) {
    throw new UserError(`package: ${name} is not the name of an npm package, such as @vercel/ai-tools.`);
  }
  try {
    return await import(resolveBeside(name, folder) ?? name);
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
    throw new UserError(`package: ${name} cannot be loaded: ${message}`, { cause: error });
  }
}

/** The package as the workers' own folder has it; undefined where it has none, so that this program's own is taken. */
function resolveBeside(name: string, folder: string): string | undefined {
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
