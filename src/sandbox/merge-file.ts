import { isUtf8 } from "node:buffer";
import { diff3Merge } from "node-diff3";

export interface MergedText {
  content: string;
  /** False when both sides changed the same lines; the content then has conflict markers. */
  clean: boolean;
}

/** Merges three versions of a text line by line. Returns undefined when one of them is binary. */
export function mergeFile(
  { ours, base, theirs }: Record<"ours" | "base" | "theirs", Uint8Array>,
  names: { ours: string; theirs: string },
): MergedText | undefined {
  if ([ours, base, theirs].some((content) => content.includes(0) || !isUtf8(content))) return undefined;

  const regions = diff3Merge(splitLines(ours), splitLines(base), splitLines(theirs), { excludeFalseConflicts: true });
  const content = regions.map((region) => {
    if (region.ok) return region.ok.join("");
    const conflict = region.conflict as { a: string[]; b: string[] };
    return [
      `<<<<<<< ${names.ours}\n`,
      closed(conflict.a.join("")),
      "=======\n",
      closed(conflict.b.join("")),
      `>>>>>>> ${names.theirs}\n`,
    ].join("");
  });
  return { content: content.join(""), clean: regions.every((region) => region.ok) };
}

/** Splits into lines that keep their line ends, so that a missing final newline counts as a change. */
function splitLines(content: Uint8Array): string[] {
  return (
    Buffer.from(content)
      .toString("utf8")
      .match(/[^\n]*\n|[^\n]+$/g) ?? []
  );
}

function closed(text: string): string {
  return text === "" || text.endsWith("\n") ? text : `${text}\n`;
}
