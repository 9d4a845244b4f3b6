import { createHash } from "node:crypto";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { UserError } from "#domain/errors.ts";

const endings = [".ts", ".mts", ".js", ".mjs", ".json"];
const most = 500;
const deepest = 6;

/** True for the name of a module that a worker may call its own tools. */
export function isModuleName(name: string): boolean {
  return endings.slice(0, -1).some((ending) => name.endsWith(ending));
}

/**
 * The modules and JSON files of a folder and those below it, sorted: what a module there may import. Files with a dot
 * before their name, links and installed packages are not among them, nor is anything else: a key or a database
 * beside a worker stays out of reach.
 */
export async function codeFiles(folder: string, depth = 0): Promise<string[]> {
  if (depth > deepest) return [];
  const entries = (await readdir(folder, { withFileTypes: true })).filter(
    ({ name }) => !name.startsWith(".") && name !== "node_modules",
  );
  const here = entries.filter((entry) => entry.isFile() && endings.some((ending) => entry.name.endsWith(ending)));
  const folders = entries.filter((entry) => entry.isDirectory());
  const below = await Promise.all(folders.map(({ name }) => codeFiles(join(folder, name), depth + 1)));
  const found = [...here.map(({ name }) => join(folder, name)), ...below.flat()].sort();
  if (found.length > most) {
    throw new UserError(
      `${folder} holds more than ${most} modules. Put the workers and their tools.ts into a folder of their own.`,
    );
  }
  return found;
}

/** The sha256 of files with their names: another one when any of them changed. */
export async function digestOf(files: readonly string[]): Promise<string> {
  const hash = createHash("sha256");
  for (const file of files) {
    const content = await readFile(file);
    hash.update(`${file.length}:${file}${content.length}:`).update(content);
  }
  return hash.digest("hex");
}
