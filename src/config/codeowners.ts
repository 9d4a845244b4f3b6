import { compilePathPattern } from "#text/path-pattern.ts";

/** The paths of the file, in the order in which GitHub looks for it. */
export const codeownersPaths = [".github/CODEOWNERS", "CODEOWNERS", "docs/CODEOWNERS"] as const;

const maxRules = 5_000;

/** The owner of a path that none of the last 5,000 rules matches, if there are earlier ones. Identifies no account. */
export const unknownOwner = "unknown";

/**
 * Parses a CODEOWNERS file. The returned function resolves a path to the owners in the last matching line, which may have
 * none. Skips lines with syntax that GitHub does not support: `!`, `[ ]`, an escaped `#`, and invalid owners. Of more than
 * 5,000 rules only the last are compared, and a path that none of them matches has an unknown owner.
 */
export function parseCodeowners(text: string): (path: string) => readonly string[] {
  const rules = text.split(/\r?\n/).flatMap((line) => parseLine(line) ?? []);
  // Compiling patterns dominates the cost, so each is compiled once and only when needed.
  const recent = rules.slice(-maxRules).toReversed();
  const compiled = new Map<string, (path: string) => boolean>();
  function matches(pattern: string, path: string): boolean {
    const match = compiled.get(pattern) ?? compilePathPattern(pattern);
    compiled.set(pattern, match);
    return match(path);
  }
  const otherwise = rules.length > maxRules ? [unknownOwner] : [];
  return (path) => recent.find(({ pattern }) => matches(pattern, path))?.owners ?? otherwise;
}

function parseLine(line: string): { pattern: string; owners: string[] } | undefined {
  const [, pattern, rest = ""] = /^\s*((?:\\.|[^\s\\])+)(.*)$/.exec(line) ?? [];
  if (pattern === undefined || /^(?:#|!|\\#)|[[\]]/.test(pattern) || pattern.length > 500) return undefined;
  const owners = rest
    .replace(/(^|\s)#.*$/, "")
    .split(/\s+/)
    .filter(Boolean);
  if (!owners.every((owner) => /^@[\w.-]+(?:\/[\w.-]+)?$|^[^@\s]+@[^@\s]+$/.test(owner))) return undefined;
  return { pattern, owners };
}
