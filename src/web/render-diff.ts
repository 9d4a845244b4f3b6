import { wrapMark } from "#text/visible-text.ts";
import { type Html, html } from "./html.ts";

interface DiffLine {
  kind: "meta" | "hunk" | "added" | "removed" | "same";
  text: string;
  /** Line numbers in the old and the new file. */
  before?: number;
  after?: number;
}

/** Renders a unified diff. Line numbers are attributes, so that copied text does not contain them. */
export function renderDiff(diff: string): Html {
  const lines = parseDiff(diff.replace(/\n$/, "").split("\n"));
  return html`<pre class="diff">${lines.map(
    ({ kind, text, before = "", after = "" }) =>
      html`<span class="${kind}" data-old="${before}" data-new="${after}">${text}\n</span>`,
  )}</pre>`;
}

/** Counts the lines that a diff adds and removes. */
export function countChanges(lines: readonly string[]): { additions: number; deletions: number } {
  const parsed = parseDiff(lines);
  return {
    additions: parsed.filter(({ kind, after }) => kind === "added" && after !== undefined).length,
    deletions: parsed.filter(({ kind, before }) => kind === "removed" && before !== undefined).length,
  };
}

function parseDiff(lines: readonly string[]): DiffLine[] {
  let [before, after, inHunk] = [0, 0, false];
  return lines.map((text): DiffLine => {
    const hunk = /^@@ -(\d+)(?:,\d+)? \+(\d+)/.exec(text);
    if (hunk) {
      [before, after, inHunk] = [Number(hunk[1]), Number(hunk[2]), true];
      return { kind: "hunk", text };
    }
    if (/^(?:diff |index |\\ )/.test(text)) {
      if (!text.startsWith("\\")) inHunk = false;
      return { kind: "meta", text };
    }
    if (!inHunk && /^(?:\+\+\+|---) /.test(text)) return { kind: "meta", text };
    const kind = text.startsWith("+") ? "added" : text.startsWith("-") ? "removed" : "same";
    // The continuation of a wrapped line has no number.
    if (!inHunk || text.slice(1).startsWith(`${wrapMark} `)) return { kind, text };
    return {
      kind,
      text,
      ...(kind !== "added" && { before: before++ }),
      ...(kind !== "removed" && { after: after++ }),
    };
  });
}
