import { constants } from "node:os";
import { type BackupPatch, printBackup } from "./backup-patch.ts";
import { type CommandContext, exitCodes } from "./command-context.ts";

import type { Terminal } from "./terminal.ts";

/**
 * Ends the process when it is told to, or is interrupted once more before it could end: the changes are in a patch file
 * then. Gives back what stops listening.
 */
export function endOnSignals(terminal: Terminal, backup: BackupPatch, context: CommandContext): () => void {
  function leave(code: number): void {
    try {
      if (backup.save()) printBackup(backup, terminal);
    } finally {
      context.leave(code);
    }
  }

  const interrupt = () => terminal.bus.emit("interrupt", { reason: "Ctrl+C" });
  const end = (signal: "SIGTERM" | "SIGHUP") => leave(128 + constants.signals[signal]);
  const stopHearing = terminal.onSecondInterrupt(() => leave(exitCodes.interrupted));
  process.on("SIGINT", interrupt);
  process.on("SIGTERM", end);
  process.on("SIGHUP", end);
  return () => {
    stopHearing();
    process.off("SIGINT", interrupt);
    process.off("SIGTERM", end);
    process.off("SIGHUP", end);
  };
}
