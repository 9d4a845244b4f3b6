import type { GuestChange } from "#executors/executor.ts";

/** What the host asks of a shell child: take over these files, then run this script. */
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
  /** Files whose content or mode is another one now. */
  written: GuestChange[];
  deleted: string[];
  /** Links and the like, which will not be taken over. */
  special: string[];
}

/** What the child asks back, for its `git`. */
export type ShellQuestion =
  | { kind: "changes" }
  | { kind: "base"; path: string }
  | { kind: "log"; limit: number; path?: string };
