const swapped = "(){}|+?";

/** Converts a POSIX basic regular expression (with GNU's `\|`, `\+`, `\?`) to an extended one. */
export function basicToExtended(pattern: string): string {
  let result = "";
  for (let at = 0; at < pattern.length; at += 1) {
    const char = pattern[at] ?? "";
    const next = pattern[at + 1] ?? "";
    if (char === "[") {
      const end = bracketEnd(pattern, at);
      result += pattern.slice(at, end);
      at = end - 1;
    } else if (char === "\\") {
      result += swapped.includes(next) && next !== "" ? next : `\\${next}`;
      at += 1;
    } else if (char === "*" && (result === "" || /(^|[^\\])[(|^]$/.test(result))) {
      result += "\\*";
    } else {
      result += swapped.includes(char) ? `\\${char}` : char;
    }
  }
  return result;
}

/** Returns the end of a bracket expression. A `]` right after `[` or `[^` is a member; `[:alpha:]` may occur inside. */
export function bracketEnd(pattern: string, start: number): number {
  let at = start + 1;
  if (pattern[at] === "^") at += 1;
  if (pattern[at] === "]") at += 1;
  while (at < pattern.length && pattern[at] !== "]") {
    const close = pattern[at] === "[" && pattern[at + 1] === ":" ? pattern.indexOf(":]", at + 2) : -1;
    at = close === -1 ? at + 1 : close + 2;
  }
  return Math.min(at + 1, pattern.length);
}
