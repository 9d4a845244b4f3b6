import type { GuestChange } from "#executors/executor.ts";

/** A request of the host to a shell child: apply these file changes, then run this script. */
export interface ShellRequest {
  write: GuestChange[];
  remove: string[];
  script: string;
  args: string[];
  env: Record<string, string>;
  cwd: string;
  stdin: string;
  timeoutMs: number;
  outputBytes: number;
  head: { commit: string; branch: string };
}

export interface ShellReply {
  exitCode: number;
  stdout: string;
  stderr: string;
  /** Files whose content or mode has changed. */
  written: GuestChange[];
  deleted: string[];
  /** Links and other special files, which are rejected. */
  special: string[];
}

/** The questions that the child's `git` asks the host. */
export type ShellQuestion =
  | { kind: "changes" }
  | { kind: "base"; path: string }
  | { kind: "log"; limit: number; path?: string };
