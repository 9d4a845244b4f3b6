import type { Readable, Writable } from "node:stream";

/** The context of a command: folder, environment and streams. */
export interface CommandContext {
  /** The current folder. */
  cwd: string;
  env: Record<string, string | undefined>;
  input: Readable;
  output: Writable;
  errors: Writable;
  /** Ends the process immediately. */
  leave(code: number): void;
}

/** Exit codes, for scripts. */
export const exitCodes = {
  /** The worker answered. */
  answered: 0,
  /** The worker failed or reached a limit, or its changes could not be delivered as requested. */
  failed: 1,
  /** The worker did not start: a wrong command, option, worker or setting. */
  misused: 2,
  interrupted: 130,
} as const;
