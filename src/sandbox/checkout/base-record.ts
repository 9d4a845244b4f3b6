import { appendFileSync, existsSync, mkdirSync, readFileSync } from "node:fs";
import { dirname } from "node:path";
import { z } from "zod";
import type { FileVersion } from "#sandbox/diff-file.ts";

/** A file before the worker changed it. `unknown`: it had changed on disk before the worker read it. */
export type RecordedFile = { kind: "file"; version: FileVersion } | { kind: "absent" } | { kind: "unknown" };

const RecordedLine = z.discriminatedUnion("kind", [
  z.object({
    path: z.string(),
    kind: z.literal("file"),
    content: z.base64(),
    executable: z.boolean(),
    isLink: z.boolean().optional(),
  }),
  z.object({ path: z.string(), kind: z.literal("absent") }),
  z.object({ path: z.string(), kind: z.literal("unknown") }),
]);

/**
 * Records files of the checkout before a run changed them, one JSON line each. A resumed run needs them for its final
 * merge, since the checkout may have changed in the meantime.
 */
export class BaseRecord {
  readonly files: ReadonlyMap<string, RecordedFile>;
  readonly #path: string;
  readonly #recorded: Map<string, RecordedFile>;
  /** True if the process that wrote the last line was killed before the line was complete. */
  #isCutOff: boolean;

  constructor(path: string) {
    this.#path = path;
    const text = existsSync(path) ? readFileSync(path, "utf8") : "";
    this.#isCutOff = text !== "" && !text.endsWith("\n");
    this.#recorded = new Map(text.split("\n").flatMap(parseLine));
    this.files = this.#recorded;
  }

  /** Records a file the first time it is changed. */
  add(path: string, file: RecordedFile): void {
    if (this.#recorded.has(path)) return;
    this.#recorded.set(path, file);
    mkdirSync(dirname(this.#path), { recursive: true, mode: 0o700 });
    const line = `${this.#isCutOff ? "\n" : ""}${JSON.stringify(lineOf(path, file))}\n`;
    appendFileSync(this.#path, line, { mode: 0o600 });
    this.#isCutOff = false;
  }
}

function lineOf(path: string, file: RecordedFile): z.input<typeof RecordedLine> {
  if (file.kind !== "file") return { path, kind: file.kind };
  const { content, ...version } = file.version;
  return { path, kind: "file", ...version, content: Buffer.from(content).toString("base64") };
}

/** A truncated line belongs to a change that was never stored. */
function parseLine(line: string): [string, RecordedFile][] {
  let data: unknown;
  try {
    data = JSON.parse(line);
  } catch {
    return [];
  }
  const parsed = RecordedLine.parse(data);
  if (parsed.kind !== "file") return [[parsed.path, { kind: parsed.kind }]];
  const { path, kind, content, ...version } = parsed;
  return [[path, { kind, version: { ...version, content: Buffer.from(content, "base64") } }]];
}
