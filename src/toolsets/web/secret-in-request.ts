import { createRedactor } from "#text/redact.ts";

const redactShapes = createRedactor([]);
/** What stands where a secret was taken out, learnt from one that is nobody's. */
const marker = redactShapes(`ghp_${"0".repeat(36)}`);

/** True when a text that would leave carries a secret, plain or encoded. `sanitize` knows the secrets this process holds. */
export function carriesSecret(text: string, sanitize: (text: string) => string): boolean {
  return spellings(text.replaceAll(marker, "")).some(
    (spelling) => redactShapes(spelling) !== spelling || sanitize(spelling).includes(marker),
  );
}

/** The text, and what it is once a server has taken its percent signs, escapes and entities off. */
function spellings(text: string): string[] {
  const found = [text];
  for (let round = 0; round < 3; round += 1) {
    const last = found.at(-1) ?? "";
    const decoded = decodeEscapes(last.replace(/(%[0-9a-f]{2})+/gi, decodeRun).replaceAll("+", " "));
    if (decoded === last) break;
    found.push(decoded);
  }
  return found;
}

/** As UTF-8, whatever else is in it: one byte that is none must not hide the rest. */
function decodeRun(run: string): string {
  return Buffer.from(run.replaceAll("%", ""), "hex").toString("utf8");
}

/** `\u0068`, `\x68`, `&#104;` and `&#x68;`, as JSON, scripts and pages write a letter. */
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
