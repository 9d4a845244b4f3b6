import { createRedactor } from "#text/redact.ts";

const redactShapes = createRedactor([]);
/** The placeholder for a redacted secret, obtained by redacting a fake token. */
const marker = redactShapes(`ghp_${"0".repeat(36)}`);

/** True if outgoing text contains a secret, plain or encoded. `sanitize` redacts the secrets that this process holds. */
export function containsSecret(text: string, sanitize: (text: string) => string): boolean {
  return decodings(text.replaceAll(marker, "")).some(
    (decoded) => redactShapes(decoded) !== decoded || sanitize(decoded).includes(marker),
  );
}

/** Returns the text and the result of each round of decoding percent encoding, escapes and entities, as a server might. */
function decodings(text: string): string[] {
  const found = [text];
  for (let round = 0; round < 3; round += 1) {
    const last = found.at(-1) ?? "";
    const decoded = decodeEscapes(last.replace(/(%[0-9a-f]{2})+/gi, decodeRun).replaceAll("+", " "));
    if (decoded === last) break;
    found.push(decoded);
  }
  return found;
}

/** Decodes a run of percent-encoded bytes as UTF-8. Invalid bytes do not prevent the rest from being decoded. */
function decodeRun(run: string): string {
  return Buffer.from(run.replaceAll("%", ""), "hex").toString("utf8");
}

/** Decodes `\u0068`, `\x68`, `&#104;` and `&#x68;`, the escapes of JSON, JavaScript and HTML. */
function decodeEscapes(text: string): string {
  return text
    .replace(/\\u([0-9a-f]{4})|\\x([0-9a-f]{2})|&#x([0-9a-f]{1,6});/gi, (_, unicode, hex, entity) =>
      character(Number.parseInt(unicode ?? hex ?? entity, 16)),
    )
    .replace(/&#(\d{1,7});/g, (_, decimal) => character(Number(decimal)));
}

function character(code: number): string {
  return code <= 0x10ffff ? String.fromCodePoint(code) : "";
}
