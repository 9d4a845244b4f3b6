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

  constructor(path: string) {
    this.#path = path;
    this.#recorded = new Map(existsSync(path) ? readFileSync(path, "utf8").split("\n").flatMap(parseLine) : []);
    this.files = this.#recorded;
  }

  /** Records a file the first time it is changed. */
  add(path: string, file: RecordedFile): void {
    if (this.#recorded.has(path)) return;
    this.#recorded.set(path, file);
    mkdirSync(dirname(this.#path), { recursive: true, mode: 0o700 });
    appendFileSync(this.#path, `${JSON.stringify(lineOf(path, file))}\n`, { mode: 0o600 });
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
