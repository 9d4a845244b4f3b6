import { normalizeText, replaceHidden } from "./hidden-characters.ts";

const removed = "[secret removed]";

/** Shorter ones are placeholders such as "none", and would take words out of ordinary text. */
const shortestSecret = 8;

// No word boundary in front: a token glued to an escaped newline (`\nghp_…`) or to a colour code is a token all the same.
const tokenShapes = [
  // GitHub, the longer forms with dots and dashes included.
  "gh[pousr]_[A-Za-z0-9_][A-Za-z0-9_.-]{15,}",
  "github_pat_[A-Za-z0-9_]{20,}",
  // Anthropic, OpenAI and those that copied their shape.
  "sk-(?:ant|proj|svcacct|or|lf)-[A-Za-z0-9_-]{10,}",
  "(?:(?<![A-Za-z])|(?<=\\\\[nrt]))sk-[A-Za-z0-9_][A-Za-z0-9_-]{18,}",
  "xox[a-z]-[A-Za-z0-9-]{10,}",
  "xapp-[A-Za-z0-9-]{10,}",
  "glpat-[A-Za-z0-9_-]{20,}",
  "npm_[A-Za-z0-9]{36}",
  "(?:AKIA|ASIA)[0-9A-Z]{16}",
  "AIza[0-9A-Za-z_-]{35}",
  "ya29\\.[0-9A-Za-z_-]{20,}",
  // A JSON Web Token: both of its first parts are JSON objects in base64.
  "eyJ[A-Za-z0-9_-]{8,}\\.eyJ[A-Za-z0-9_-]{8,}\\.[A-Za-z0-9_-]*",
  // Credentials in an address.
  "(?<=https?://)[^\\s/@:]{0,200}:[^\\s/@]{1,500}(?=@)",
];

// A key may stand in a diff, a quotation or a string with escaped line ends, and its last line may be missing.
const privateKey =
  "-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----" +
  "(?:[\\r\\n\\\\n]{0,4}(?:Proc-Type|DEK-Info):[^\\n]{0,200})*" +
  "(?:[A-Za-z0-9+/=\\\\ \\t\\r]|\\n[-+ >|]?(?!-))*" +
  "(?:\\n?[-+ >|]?-----END [A-Z0-9 ]{0,40}-----)?";

const shapes = new RegExp(`${privateKey}|${tokenShapes.join("|")}`, "g");

/**
 * Gives a function that takes every held secret out of a text, also in base64, hex, URL or JSON encoding or written
 * backwards, and everything that has the shape of a well-known token. Time grows with the text alone.
 */
export function createRedactor(secrets: readonly string[]): (text: string) => string {
  const forms = [...new Set(secrets.filter((secret) => secret.length >= shortestSecret).flatMap(formsOf))];
  const held = forms.length > 0 ? new RegExp(forms.sort(longestFirst).map(escapePattern).join("|"), "g") : undefined;
  const redact = (text: string) => (held ? text.replace(held, removed) : text).replace(shapes, removed);

  return (text) => {
    const direct = redact(text);
    // Hidden characters may be there to break a token in two: where they do, the text goes without them.
    const safe = redact(bare(text));
    return bare(direct) === safe ? direct : safe;
  };
}

function bare(text: string): string {
  return replaceHidden(normalizeText(text), () => "");
}

function formsOf(secret: string): string[] {
  const lines = secret.includes("\n") ? secret.split("\n").filter((line) => isKeyMaterial(line)) : [];
  const joined = lines.join("");
  return [...encodingsOf(secret.trim()), ...lines, ...(joined ? [joined] : [])];
}

function isKeyMaterial(line: string): boolean {
  return line.length >= 16 && !line.startsWith("-----");
}

function encodingsOf(text: string): string[] {
  const bytes = Buffer.from(text);
  const forms = [text, [...text].reverse().join(""), encodeURIComponent(text), JSON.stringify(text).slice(1, -1)];
  return [...forms, bytes.toString("hex"), bytes.toString("hex").toUpperCase(), ...insideBase64(bytes)].filter(
    (form) => form.length >= shortestSecret,
  );
}

/** The part that is the same wherever the bytes begin inside a longer base64 text. */
function insideBase64(bytes: Buffer): string[] {
  return [0, 1, 2].flatMap((before) => {
    const shifted = Buffer.concat([Buffer.alloc(before), bytes]);
    const from = before === 0 ? 0 : before + 1;
    const sure = Math.floor((shifted.length * 8) / 6);
    return [shifted.toString("base64").slice(from, sure), shifted.toString("base64url").slice(from, sure)];
  });
}

function longestFirst(a: string, b: string): number {
  return b.length - a.length;
}

function escapePattern(text: string): string {
  return text.replace(/[\\^$.*+?()[\]{}|/-]/g, "\\$&");
}
