import { z } from "zod";

const pattern = z.string().refine(isRegularExpression, "It is not a valid regular expression");

const Rules = z.strictObject({
  /** Patterns of the only files that may change. Without them, every file may. */
  allowed_paths: z.array(z.string()).optional(),
  forbidden_paths: z.array(z.string()).default([]),
  /** Tools that must not be called, even if the call fails. */
  forbidden_tools: z.array(z.string()).default([]),
  /** Expressions that must not match the answer, an added line, or the arguments of a call that writes no file. */
  forbidden_text: z.array(pattern).default([]),
});

const Fault = z.strictObject({
  path: z.string(),
  /** First and last line after the change. A finding may also be on the line before or after them. */
  lines: z.tuple([z.number().int().positive(), z.number().int().positive()]),
  /** An expression that the text of the finding must match as well. */
  about: pattern.optional(),
});

const ReviewTask = z.strictObject({
  /** A patch that is committed on top of the repository: the change under review. */
  patch: z.string().default("change.patch"),
  faults: z.array(Fault).min(1),
  /** The minimum share of the findings that find a fault. */
  min_signal: z.number().min(0).max(1).default(0),
});

/** The format of `task.yml`. */
export const TaskFile = z.strictObject({
  description: z.string(),
  /** An included worker, or the path of a `.worker` file in the task's folder. */
  worker: z.string().default("fixer"),
  /** The text for the worker, such as that of an issue. */
  task: z.string().min(1),
  /** A folder within the task's folder, or a git URL or path, which requires `commit`. */
  repository: z.string().default("repository"),
  commit: z.string().min(1).optional(),
  setup: z.array(z.string()).default([]),
  checks: z.array(z.string()).default([]),
  sandbox: z.enum(["os", "memory"]).default("os"),
  check_seconds: z.number().positive().default(120),
  rules: Rules.prefault({}),
  /** Expressions that must each match the answer. */
  answer: z.array(pattern).default([]),
  review: ReviewTask.optional(),
});

/** Files that the worker must not see: a folder, or a patch of the repository. */
export type HiddenFiles = { kind: "folder"; path: string } | { kind: "patch"; patch: string };

/** A task that a worker is evaluated on. */
export interface EvalTask extends Pick<z.infer<typeof TaskFile>, "worker" | "setup" | "checks" | "sandbox" | "rules"> {
  name: string;
  /** The text for the worker. */
  prompt: string;
  repository: { kind: "folder"; path: string } | { kind: "git"; url: string; commit: string };
  hidden: HiddenFiles | undefined;
  checkTimeoutMs: number;
  answerPatterns: string[];
  /** `patch` is the text of the change under review. */
  review: z.infer<typeof ReviewTask> | undefined;
  /** The changed lines of a known solution. */
  referenceLines: number | undefined;
}

function isRegularExpression(text: string): boolean {
  try {
    new RegExp(text, "im");
    return true;
  } catch {
    return false;
  }
}

/** Returns the known fields at a path of a `task.yml`. */
export function knownFieldsAt(path: readonly PropertyKey[]): readonly string[] {
  if (path.length === 0) return Object.keys(TaskFile.shape);
  if (path[0] === "rules") return Object.keys(Rules.shape);
  return path[0] === "review" ? Object.keys(path[1] === "faults" ? Fault.shape : ReviewTask.shape) : [];
}

/** Returns the added and removed lines of a patch, each with its sign. */
export function changedLines(patch: string): string[] {
  const found: string[] = [];
  let [before, after] = [0, 0];
  for (const line of patch.split("\n")) {
    const hunk = /^@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@/.exec(line);
    if (hunk && before <= 0 && after <= 0) [before, after] = [Number(hunk[1] ?? 1), Number(hunk[2] ?? 1)];
    else if (before > 0 || after > 0) {
      if (line.startsWith("-") || line.startsWith("+")) found.push(line);
      if (!line.startsWith("+") && !line.startsWith("\\")) before -= 1;
      if (!line.startsWith("-") && !line.startsWith("\\")) after -= 1;
    }
  }
  return found;
}
