import { compilePathPattern } from "#text/path-pattern.ts";

/** The paths of the file, in the order in which GitHub looks for it. */
export const codeownersPaths = [".github/CODEOWNERS", "CODEOWNERS", "docs/CODEOWNERS"] as const;

const maxRules = 5_000;
const maxLines = 20_000;

/** The owner of a path that none of the compared rules matches, if there may be earlier ones. Identifies no account. */
export const unknownOwner = "unknown";

/**
 * Parses a CODEOWNERS file. The returned function resolves a path to the owners in the last matching line, which may have
 * none. Skips lines with syntax that GitHub does not support: `!`, `[ ]`, an escaped `#`, and invalid owners. Of a file with
 * more than 5,000 rules or 20,000 lines only the last are compared, and a path that none of them matches has an unknown
 * owner. `pause` is awaited after each rule for which it returns a promise.
 */
export function parseCodeowners(
  text: string,
  pause: () => Promise<void> | undefined = () => undefined,
): (path: string) => Promise<readonly string[]> {
  const { rules, isWhole } = readRules(text);
  // Compiling patterns dominates the cost, so each is compiled once and only when needed.
  const compiled = new Map<string, (path: string) => boolean>();
  function matches(pattern: string, path: string): boolean {
    return compiled.getOrInsertComputed(pattern, () => compilePathPattern(pattern))(path);
  }
  return async (path) => {
    for (const { pattern, owners } of rules) {
      if (matches(pattern, path)) return owners;
      const pausing = pause();
      if (pausing !== undefined) await pausing;
    }
    return isWhole ? [] : [unknownOwner];
  };
}

/** Reads the rules from the last to the first, as far as the limits allow. */
function readRules(text: string) {
  const rules: { pattern: string; owners: string[] }[] = [];
  let end = text.length;
  for (let lines = 0; end >= 0; lines++) {
    if (rules.length === maxRules || lines === maxLines) return { rules, isWhole: false };
    const start = end === 0 ? -1 : text.lastIndexOf("\n", end - 1);
    const rule = parseLine(text.slice(start + 1, end).replace(/\r$/, ""));
    if (rule) rules.push(rule);
    end = start;
  }
  return { rules, isWhole: true };
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
