import { type Command, defineCommand, type ResolvedCommandContext } from "just-bash";
import { root } from "./loaded-tree.ts";

/**
 * `rm` and `find` that refuse to delete the repository as a whole or a folder above it, however that is spelled: `/`,
 * `/*`, `/workspace/..`, `$X/`. Their words are expanded by the time they get here. Everything else is done by the
 * shell's own commands.
 */
export function guardedDeletions(): Command[] {
  return [
    guarded("rm", operands),
    guarded("mv", (args) => operands(args).slice(0, -1)),
    guarded("find", (args) => (deletesUnnamed(args) ? startingPoints(args) : [])),
  ];
}

function guarded(name: string, targets: (args: readonly string[]) => readonly string[]): Command {
  return defineCommand(name, async (args, context) => {
    const refused = targets(args).find((path) => holdsRepository(path, context));
    if (refused === undefined) {
      return (await context.origCommand?.(args)) ?? { stdout: "", stderr: `${name}: not found\n`, exitCode: 127 };
    }
    return { stdout: "", stderr: `${name}: refused: '${refused}' holds the whole repository\n`, exitCode: 1 };
  });
}

function holdsRepository(path: string, { fs, cwd }: ResolvedCommandContext): boolean {
  const resolved = fs.resolvePath(cwd, path);
  return resolved === root || resolved === "/" || root.startsWith(`${resolved}/`);
}

function operands(args: readonly string[]): string[] {
  return args.filter((arg) => !/^-./.test(arg));
}

/** True for a search that deletes and does not say by name or property what. */
function deletesUnnamed(args: readonly string[]): boolean {
  const deletes = args.some((arg) => arg === "-delete" || /(^|\/)(rm|unlink|rmdir|shred)$/.test(arg));
  return deletes && !args.some((arg) => /^-(i?name|i?path|i?regex|empty|size|[acm]time|[acm]min|newer)$/.test(arg));
}

function startingPoints(args: readonly string[]): readonly string[] {
  const end = args.findIndex((arg) => /^[-(!]/.test(arg));
  const paths = end === -1 ? args : args.slice(0, end);
  return paths.length > 0 ? paths : ["."];
}
