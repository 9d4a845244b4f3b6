import { createRedactor } from "#redact.ts";

const redactShapes = createRedactor([]);
/** What stands where a secret was taken out, learnt from one that is nobody's. */
const marker = redactShapes(`ghp_${"0".repeat(36)}`);

/** True when a text that would leave carries a secret, plain or encoded. `sanitize` knows the secrets this process holds. */
export function carriesSecret(text: string, sanitize: (text: string) => string): boolean {
  return spellings(text.replaceAll(marker, "")).some(
    (spelling) => redactShapes(spelling) !== spelling || sanitize(spelling).includes(marker),
  );
}

/** The text, and what it is once a server has taken its percent signs off. */
function spellings(text: string): string[] {
  const found = [text];
  for (let round = 0; round < 3; round += 1) {
    const last = found.at(-1) ?? "";
    const decoded = last.replace(/(%[0-9a-f]{2})+/gi, decodeRun).replaceAll("+", " ");
    if (decoded === last) break;
    found.push(decoded);
  }
  return found;
}

function decodeRun(run: string): string {
  try {
    return decodeURIComponent(run);
  } catch {
    return run;
  }
}
