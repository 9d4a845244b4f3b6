// sed, awk, jq and yq take scripts as arguments. Only the parts of these languages that are listed here are allowed.
// They transform input: they neither run programs, nor read or write other files, nor read the environment.

/** A regular expression between delimiters. Implementations disagree about delimiters and backslashes in brackets. */
function pattern(delimiter: string): string {
  const end = RegExp.escape(delimiter);
  const brackets = String.raw`\[(?!\^?\])\^?(?:\[:\w+:\]|\\[a-z]|[^\][\\\n${end}])+\]`;
  return String.raw`(?:[^\\\n[${end}]|\\[^\n]|${brackets})*`;
}

const sedAddress = String.raw`(?:\d+(?:~\d+)?|\$|\/${pattern("/")}\/I?|[+~]\d+)`;
const sedSubstitutions = [..."/|,#:@!_"].map((delimiter) => {
  const end = RegExp.escape(delimiter);
  const text = String.raw`(?:[^\\\n${end}]|\\[\s\S])*`;
  return `s${end}${pattern(delimiter)}${end}${text}${end}[gpiI0-9]*|y${end}${text}${end}${text}${end}`;
});
const sedCommand = (others: string) =>
  new RegExp(
    [
      String.raw`(?:${sedAddress}(?:\s*,\s*${sedAddress})?)?\s*!?\s*`,
      String.raw`(?:${sedSubstitutions.join("|")}|[={}dDgGhHnNpPxz]|[lqQ][ \t]*\d*|${others})`,
      String.raw`[ \t]*(?:[;\n]\s*|(?=\})|(?<=\{)\s*|$)`,
    ].join(""),
    "y",
  );
const sedLabels = sedCommand(String.raw`[aic][ \t][^\n\\]*|:[ \t]*\w+|[btT](?:[ \t]*\w+)?`);
const sedLines = sedCommand(String.raw`[aic](?:\\\n|[ \t])[^\n\\]*`);

export function isPlainSed(script: string): boolean {
  // For some implementations, a label ends only with its line. What follows a continued line would be a command.
  return consistsOf(script.includes("\\\n") ? sedLines : sedLabels, script.trim());
}

function consistsOf(part: RegExp, text: string): boolean {
  for (let at = 0; at < text.length; at = part.lastIndex) {
    part.lastIndex = at;
    if (!part.test(text)) return false;
  }
  return true;
}

const awkToken =
  /\s+|#[^\n]*|"(?:[^"\\\n]|\\[^\n])*"|\d+(?:\.\d*)?|[A-Za-z_]\w*|\|\||&&|[-+*%^=!<>]=|\+\+|--|>>|[-+*/%^=!<>~?:,;(){}[\]$]/y;
const awkPattern = new RegExp(String.raw`\/${pattern("/")}\/`, "y");
const awkKeywords = new Set(
  "BEGIN END if else for while do in next exit print printf delete break continue".split(" "),
);
/** A slash after them may begin a pattern. */
const awkOtherKeywords = /^(?:getline|return|nextfile|switch|case|default|func.*)$/;
const awkVariables = new Set("NR NF FS OFS RS ORS FNR FILENAME RSTART RLENGTH SUBSEP".split(" "));
const awkFunctions = new Set(
  "length substr index split sub gsub gensub match sprintf tolower toupper int sqrt exp log sin cos rand".split(" "),
);

export function isPlainAwk(program: string): boolean {
  let before = ";";
  let isPrinting = false;
  for (let at = 0; at < program.length; ) {
    const slash = program[at] === "/" ? roleOfSlash(before) : undefined;
    if (slash === "unclear") return false;
    const token = slash === "pattern" ? awkPattern : awkToken;
    token.lastIndex = at;
    const text = token.exec(program)?.[0];
    if (text === undefined) return false;
    at += text.length;
    if (/^\s|^#/.test(text)) {
      // A line that ends after an operator or a comma continues.
      if (text.includes("\n") && /["\w)\]]$/.test(before)) before = "\n";
      continue;
    }
    if (/^[A-Za-z_]/.test(text) && !isPlainAwkWord(text, isCalledAt(program, at))) return false;
    if (text === "print" || text === "printf") isPrinting = true;
    if (/^[;}]$/.test(text)) isPrinting = false;
    // It may redirect the output.
    if (isPrinting && text.startsWith(">")) return false;
    before = slash === "pattern" ? ")" : text;
  }
  return true;
}

function isCalledAt(program: string, at: number): boolean {
  const call = /\s*\(/y;
  call.lastIndex = at;
  return call.test(program);
}

function isPlainAwkWord(word: string, isCalled: boolean): boolean {
  if (awkKeywords.has(word) || awkVariables.has(word)) return true;
  if (isCalled || awkFunctions.has(word)) return awkFunctions.has(word);
  // It is a variable: all other functions need parentheses, but for `getline`.
  return /^[a-z]\w*$/.test(word) && !awkOtherKeywords.test(word);
}

function roleOfSlash(before: string): "pattern" | "division" | "unclear" {
  if (/^(?:[;{}(,!~\n]|&&|\|\|)$/.test(before)) return "pattern";
  const isOperand =
    /^\d|\]$/.test(before) || (/^[A-Za-z_]\w*$/.test(before) && !awkKeywords.has(before) && !awkFunctions.has(before));
  return isOperand ? "division" : "unclear";
}

const jqWords = new Set(
  `add all and any arrays ascii_downcase ascii_upcase as booleans by capture catch contains del elif else empty end endswith error
  explode false first flatten floor foreach from_entries fromjson group_by gsub has if implode in index indices inside isvalid
  iterables join keys keys_unsorted last length limit ltrimstr map map_values match max max_by min min_by not nth null nulls
  numbers objects or path paths range recurse reduce reverse round rtrimstr scalars scan select sort sort_by split splits
  startswith strings sub test then to_entries tojson tonumber tostring transpose true try type unique unique_by until
  values walk while with_entries`.split(/\s+/),
);

/** Words in strings with an expression count as well. */
export function isPlainJq(filter: string): boolean {
  return hasOnlyJqWords(filter, true);
}

/** In yq, `"a.yml" load : 1` calls a function that has the place of a key. */
export function isPlainYq(filter: string): boolean {
  return hasOnlyJqWords(filter, false);
}

function hasOnlyJqWords(filter: string, mayHaveKeys: boolean): boolean {
  const code = filter.includes("\\(") ? filter : filter.replace(/"(?:[^"\\]|\\[^(])*"/g, '""');
  if (/[`#~]/.test(code)) return false;
  return [...code.matchAll(/(\.\.|[.$@]?)([A-Za-z_]\w*)((?<=[{,]\s*\w+)\s*:(?!:))?/g)].every(
    ([, mark, word = "", isKey]) => {
      if (mark === "$") return /^[a-z]\w*$/.test(word);
      return mark === "." || mark === "@" || (mayHaveKeys && isKey !== undefined) || jqWords.has(word);
    },
  );
}
