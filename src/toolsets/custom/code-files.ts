import { createHash } from "node:crypto";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { UserError } from "#domain/errors.ts";

const extensions = [".ts", ".mts", ".js", ".mjs", ".json"];
const maxFiles = 500;
const maxDepth = 6;

/** True for the file name of a module that may hold custom tools. */
export function isModuleName(name: string): boolean {
  return extensions.slice(0, -1).some((extension) => name.endsWith(extension));
}

/**
 * The modules and JSON files in a folder and below it, sorted: the files that a module there may import. Hidden files,
 * links, installed packages and files of any other kind are left out, so that a key or a database beside a worker cannot
 * be read.
 */
export async function codeFiles(folder: string, depth = 0): Promise<string[]> {
  if (depth > maxDepth) return [];
  const entries = (await readdir(folder, { withFileTypes: true })).filter(
    ({ name }) => !name.startsWith(".") && name !== "node_modules",
  );
  const here = entries.filter(
    (entry) => entry.isFile() && extensions.some((extension) => entry.name.endsWith(extension)),
  );
  const folders = entries.filter((entry) => entry.isDirectory());
  const below = await Promise.all(folders.map(({ name }) => codeFiles(join(folder, name), depth + 1)));
  const found = [...here.map(({ name }) => join(folder, name)), ...below.flat()].sort();
  if (found.length > maxFiles) {
    throw new UserError(
      `${folder} has more than ${maxFiles} modules. Move the workers and their tools.ts to a separate folder.`,
    );
  }
  return found;
}

/** The sha256 of files and their names. */
export async function digestOf(files: readonly string[]): Promise<string> {
  const hash = createHash("sha256");
  for (const file of files) {
    const content = await readFile(file);
    hash.update(`${file.length}:${file}${content.length}:`).update(content);
  }
  return hash.digest("hex");
}
