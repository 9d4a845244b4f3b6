import { constants } from "node:os";
import { type BackupPatch, printBackup } from "./backup-patch.ts";
import { type CommandContext, exitCodes } from "./command-context.ts";

import type { Terminal } from "./terminal.ts";

/**
 * Ends the process on a signal, or on a second Ctrl+C before the worker has stopped. The changes are saved to the backup
 * patch first. Returns a function that stops listening.
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
  const unsubscribe = terminal.onSecondInterrupt(() => leave(exitCodes.interrupted));
  process.on("SIGINT", interrupt);
  process.on("SIGTERM", end);
  process.on("SIGHUP", end);
  return () => {
    unsubscribe();
    process.off("SIGINT", interrupt);
    process.off("SIGTERM", end);
    process.off("SIGHUP", end);
  };
}
