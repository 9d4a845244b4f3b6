export interface CodeSymbol {
  name: string;
  /** From 1. */
  line: number;
}

const maxLineLength = 400;
const name = "([\\p{L}_$][\\p{L}\\p{N}_$]*)";
const keyword =
  "function|class|interface|type|enum|struct|trait|impl|union|record|protocol|namespace|module|mod|object|def|fn|fun|func|sub|proc|const|let|var|val|static|macro_rules!";
const modifier =
  "export|default|declare|public|private|protected|internal|abstract|final|sealed|static|async|override|readonly|pub|unsafe|extern|partial|virtual|inline|open|data|suspend|get|set";
// Each alternative in a loop ends in white space, so that there is only one way to match a line (no backtracking).
const declaration = new RegExp(
  `^\\s*(?:(?:${modifier})\\s+)*(?:${keyword})\\s*\\*?\\s+(?:\\([^()]*\\)\\s*)?${name}`,
  "u",
);
const method = new RegExp(`^\\s+(?:(?:${modifier})\\s+)*[*#]?${name}\\s*\\([^;{}]*\\)[^;=]*\\{\\s*$`, "u");
const heading = /^#{1,6}\s+(.{1,120})$/;
const control = new Set(["if", "for", "while", "switch", "catch", "function", "return", "with", "else", "do", "match"]);

/** Finds definitions in common languages by single lines, and headings in Markdown. */
export function codeSymbols(lines: readonly string[], path: string): CodeSymbol[] {
  const isProse = /\.(md|mdx|markdown|rst|txt)$/i.test(path);
  return lines.flatMap((text, index) => {
    if (text.length > maxLineLength) return [];
    const found = isProse ? heading.exec(text)?.[1] : (declaration.exec(text)?.[1] ?? method.exec(text)?.[1]);
    return found === undefined || control.has(found) ? [] : [{ name: found, line: index + 1 }];
  });
}
