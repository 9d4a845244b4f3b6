import { normalizeText, replaceHidden } from "./visible-text.ts";

const replacement = "[secret removed]";

/** Shorter secrets are placeholders such as "none". Redacting them would remove ordinary words. */
const minSecretLength = 8;

/**
 * A token of several lines, as a mail or `base64` wraps it: in a string, a quotation or a diff, or after a mark that the line
 * continues. A name of 20 characters in the next line rarely has small letters, capital letters and digits. A token whose first
 * line is longer than this is not wrapped.
 */
function wrapped(start: string, characters: string): string {
  const lineEnd = "[=\\\\]?(?:\\r?\\n|(?:\\\\r)?\\\\n)[ \\t>|+]{0,8}";
  const isMixed = ["a-z", "A-Z", "0-9"].map((kind) => `(?=[${characters}]{0,75}[${kind}])`).join("");
  return `${start}[${characters}]{0,200}(?:${lineEnd}(?!gh[pousr]_)${isMixed}[${characters}]{20,})+`;
}

// No word boundary in front: a token may follow an escaped line end (`\nghp_…`) or a color code.
const tokenPatterns = [
  // Tokens with a JSON Web Token begin with the app's id. The others have 36 letters and digits, and are not wrapped.
  wrapped("gh[pousr]_(?![A-Za-z0-9]{36}(?![A-Za-z0-9_.-]))[0-9]", "A-Za-z0-9_.-"),
  `${wrapped("eC1hY2Nlc3MtdG9rZW46", "A-Za-z0-9+/")}=*`,
  // GitHub. Installation tokens contain a JSON Web Token, so they also have dots and dashes.
  "gh[pousr]_[A-Za-z0-9_][A-Za-z0-9_.-]{15,}",
  "github_pat_[A-Za-z0-9_]{20,}",
  // The header with which git sends a token: `x-access-token:` and the token in base64.
  "eC1hY2Nlc3MtdG9rZW46[A-Za-z0-9+/=]{10,}",
  // Anthropic, OpenAI and others with the same format.
  "sk-(?:ant|proj|svcacct|or|lf)-[A-Za-z0-9_-]{10,}",
  "(?:(?<![A-Za-z])|(?<=\\\\[nrt]))sk-[A-Za-z0-9_][A-Za-z0-9_-]{18,}",
  "xox[a-z]-[A-Za-z0-9-]{10,}",
  "xapp-[A-Za-z0-9-]{10,}",
  "glpat-[A-Za-z0-9_-]{20,}",
  "npm_[A-Za-z0-9]{36}",
  "(?:AKIA|ASIA)[0-9A-Z]{16}",
  "AIza[0-9A-Za-z_-]{35}",
  "ya29\\.[0-9A-Za-z_-]{20,}",
  // Credentials in a URL.
  "(?<=https?://)[^\\s/@:]{0,200}:[^\\s/@]{1,500}(?=@)",
];

// A key may be part of a diff, a quotation or a string with escaped line ends, and its last line may be missing.
const privateKey =
  "-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----" +
  "(?:[\\r\\n\\\\n]{0,4}(?:Proc-Type|DEK-Info):[^\\n]{0,200})*" +
  "(?:[A-Za-z0-9+/=\\\\ \\t\\r]|\\n[-+ >|]?(?!-))*" +
  "(?:\\n?[-+ >|]?-----END [A-Z0-9 ]{0,40}-----)?";

const tokens = new RegExp(`${privateKey}|${tokenPatterns.join("|")}`, "g");

/**
 * Returns a function that removes secrets from a text: the given ones, including in base64, hex, URL or JSON encoding or
 * reversed, and everything that looks like a well-known token. It runs in linear time.
 */
export function createRedactor(secrets: readonly string[]): (text: string) => string {
  const forms = [...new Set(secrets.filter((secret) => secret.length >= minSecretLength).flatMap(formsOf))];
  const known =
    forms.length > 0
      ? new RegExp(
          forms
            .sort((a, b) => b.length - a.length)
            .map(RegExp.escape)
            .join("|"),
          "g",
        )
      : undefined;
  const redact = (text: string) =>
    redactJsonWebTokens((known ? text.replace(known, replacement) : text).replace(tokens, replacement));

  return (text) => {
    // Most strings of a value are short, such as its keys.
    if (text.length < minSecretLength) return text;
    const direct = redact(text);
    const plain = withoutHidden(text);
    if (plain === text) return direct;
    // Hidden characters may split a token. If they do, the text is returned without them.
    const safe = redact(plain);
    return withoutHidden(direct) === safe ? direct : safe;
  };
}

/** Redacts every string in a value. Redact before truncating: half a secret is no longer recognized. */
export function redactDeep<T>(value: T, redact: (text: string) => string): T {
  return redactPart(value) as T;

  function redactPart(part: unknown): unknown {
    if (typeof part === "string") return redact(part);
    if (Array.isArray(part)) return part.map(redactPart);
    if (part === null || typeof part !== "object") return part;
    return Object.fromEntries(Object.entries(part).map(([key, member]) => [redact(key), redactPart(member)]));
  }
}

// Not a single pattern for the whole token: it would take quadratic time for `eyJeyJeyJ…`.
function redactJsonWebTokens(text: string): string {
  if (!text.includes("eyJ")) return text;
  return text.replace(/[A-Za-z0-9_.-]+/g, (run) => (run.includes("eyJ") ? redactRun(run) : run));
}

/** A JSON Web Token has three parts, and the first two are JSON objects in base64. */
function redactRun(run: string): string {
  const parts = run.split(".");
  const kept: string[] = [];
  for (let index = 0; index < parts.length; index++) {
    const part = parts[index] ?? "";
    const start = part.indexOf("eyJ");
    const isToken =
      start >= 0 && isJsonPart(part.slice(start)) && isJsonPart(parts[index + 1]) && index + 2 < parts.length;
    kept.push(isToken ? part.slice(0, start) + replacement : part);
    if (isToken) index += 2;
  }
  return kept.join(".");
}

function isJsonPart(part = ""): boolean {
  return part.startsWith("eyJ") && part.length >= 11;
}

function withoutHidden(text: string): string {
  return replaceHidden(normalizeText(text), () => "");
}

function formsOf(secret: string): string[] {
  const lines = secret.includes("\n")
    ? secret.split("\n").filter((line) => line.length >= 16 && !line.startsWith("-----"))
    : [];
  const joined = lines.join("");
  return [...encodingsOf(secret.trim()), ...lines, ...(joined ? [joined] : [])];
}

function encodingsOf(text: string): string[] {
  const bytes = Buffer.from(text);
  const forms = [text, [...text].reverse().join(""), encodeURIComponent(text), JSON.stringify(text).slice(1, -1)];
  return [...forms, bytes.toString("hex"), bytes.toString("hex").toUpperCase(), ...insideBase64(bytes)].filter(
    (form) => form.length >= minSecretLength,
  );
}

/** Returns the base64 characters that encode the bytes at each possible offset within a longer text. */
function insideBase64(bytes: Buffer): string[] {
  return [0, 1, 2].flatMap((before) => {
    const shifted = Buffer.concat([Buffer.alloc(before), bytes]);
    const start = before === 0 ? 0 : before + 1;
    const end = Math.floor((shifted.length * 8) / 6);
    return [shifted.toString("base64").slice(start, end), shifted.toString("base64url").slice(start, end)];
  });
}
