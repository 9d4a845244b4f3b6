import { compilePathPattern } from "./path-pattern.ts";

/** The places of the file, in the order in which GitHub looks for it. */
export const codeownersPaths = [".github/CODEOWNERS", "CODEOWNERS", "docs/CODEOWNERS"] as const;

const maxRules = 5_000;

/**
 * Parses a CODEOWNERS file to a function that returns the owners of a path: those of the last line that matches, which
 * may be none. Skips lines whose syntax GitHub does not support: `!`, `[ ]`, an escaped `#`, and owners that are none.
 */
export function parseCodeowners(text: string): (path: string) => readonly string[] {
  const rules = text.split(/\r?\n/).flatMap((line) => parseLine(line) ?? []);
  const recent = rules.slice(-maxRules).toReversed();
  return (path) => recent.find(({ matches }) => matches(path))?.owners ?? [];
}

function parseLine(line: string): { matches: (path: string) => boolean; owners: string[] } | undefined {
  const [, pattern, rest = ""] = /^\s*((?:\\.|[^\s\\])+)(.*)$/.exec(line) ?? [];
  if (pattern === undefined || /^(?:#|!|\\#)|[[\]]/.test(pattern) || pattern.length > 500) return undefined;
  const owners = rest
    .replace(/(^|\s)#.*$/, "")
    .split(/\s+/)
    .filter(Boolean);
  if (!owners.every((owner) => /^@[\w.-]+(?:\/[\w.-]+)?$|^[^@\s]+@[^@\s]+$/.test(owner))) return undefined;
  return { matches: compilePathPattern(pattern), owners };
}
