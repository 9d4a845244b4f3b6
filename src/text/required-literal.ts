/** Returns a text that every match of a regular expression contains; empty if none is obvious. Runs in linear time. */
export function requiredLiteral(pattern: string): string {
  const lastBrace = pattern.lastIndexOf("}");
  const runs: string[] = [];
  let run = "";
  const endRun = () => {
    runs.push(run);
    run = "";
  };
  for (let at = 0; at < pattern.length; at++) {
    const character = pattern.charAt(at);
    const next = pattern.charAt(at + 1);
    if ("(|)".includes(character)) return "";
    if (character === "[") {
      // A bracket that comes first is a member of the set.
      const end = pattern.indexOf("]", at + (next === "^" ? 3 : 2));
      const set = pattern.slice(at, end);
      // In `[[:alpha:]]` the first closing bracket does not end the set.
      if (end === -1 || set.includes("\\") || set.includes("[:")) return "";
      endRun();
      at = end;
    } else if ("*?{".includes(character)) {
      run = [...run].slice(0, -1).join("");
      endRun();
      if (character === "{" && at < lastBrace) at = pattern.indexOf("}", at);
    } else if (character === "\\" && /[^\w\s]/.test(next)) {
      run += next;
      at++;
    } else if (character === "\\") {
      if (/[pPQxE0-9]/.test(next)) return "";
      endRun();
      at++;
    } else if (".^$+".includes(character)) {
      endRun();
    } else {
      run += character;
    }
  }
  endRun();
  return runs.reduce((longest, candidate) => (candidate.length > longest.length ? candidate : longest), "");
}
