import { constants } from "node:os";
import type { Desk } from "./desk.ts";
import type { KeptPatch } from "./keep-patch.ts";
import { exitCodes, type Place } from "./place.ts";
import { sayKept } from "./say-kept.ts";

/**
 * Ends the process when it is told to, or is interrupted once more before it could end: the changes are in a patch file
 * then. Gives back what stops listening.
 */
export function endOnSignals(desk: Desk, kept: KeptPatch, place: Place): () => void {
  function leave(code: number): void {
    try {
      if (kept.keep()) sayKept(kept, desk);
    } finally {
      place.leave(code);
    }
  }

  const interrupt = () => desk.bus.emit("interrupt", { reason: "Ctrl+C" });
  const end = (signal: "SIGTERM" | "SIGHUP") => leave(128 + constants.signals[signal]);
  const stopHearing = desk.onImpatience(() => leave(exitCodes.interrupted));
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
