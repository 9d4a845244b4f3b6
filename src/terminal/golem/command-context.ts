import type { Readable, Writable } from "node:stream";

/** Where a command was given, and who hears of it. */
export interface CommandContext {
  /** The folder the person stands in. */
  cwd: string;
  env: Record<string, string | undefined>;
  input: Readable;
  output: Writable;
  errors: Writable;
  /** Ends the process at once. */
  leave(code: number): void;
}

/** How a command ended, for scripts. */
export const exitCodes = {
  /** The worker answered. */
  answered: 0,
  /** The worker failed or reached a limit, or its changes could not be handed over as asked. */
  failed: 1,
  /** Nothing was started: a wrong command, option, worker or setting. */
  misused: 2,
  interrupted: 130,
} as const;
