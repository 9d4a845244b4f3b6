import { mkdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import type { Checkout } from "#sandbox/checkout/open-checkout.ts";
import { writePatch } from "#sandbox/checkout/write-patch.ts";
import { oneLine } from "#terminal/value-to-text.ts";
import type { CommandContext } from "./command-context.ts";
import { checkoutName, stateFolder } from "./saved-runs.ts";
import type { Terminal } from "./terminal.ts";

/** A patch file outside the checkout with the changes of a run. It survives a crash of this process. */
export interface BackupPatch {
  readonly path: string;
  /** Writes the changes made so far. Returns false when there are none. */
  save(): boolean;
  /** Deletes the file: the changes were delivered or discarded. */
  discard(): void;
}

export function createBackupPatch(
  checkout: Pick<Checkout, "root" | "changes">,
  id: string,
  { env }: Pick<CommandContext, "env">,
): BackupPatch {
  let path = join(stateFolder({ env }), `${checkoutName(checkout.root)}-${id}.patch`);
  let written = "";

  return {
    get path() {
      return path;
    },
    save() {
      const patch = writePatch(checkout.changes());
      if (patch === written) return patch !== "";
      if (patch === "") rmSync(path, { force: true });
      else path = writeSomewhere(path, patch);
      written = patch;
      return patch !== "";
    },
    discard() {
      rmSync(path, { force: true });
      written = "";
    },
  };
}

/** Falls back to the folder for temporary files when the state folder cannot be written. */
function writeSomewhere(path: string, patch: string): string {
  try {
    writeAtomically(path, patch);
    return path;
  } catch {
    const other = join(tmpdir(), basename(path));
    writeAtomically(other, patch);
    return other;
  }
}

/** Replaces the file atomically. Only its owner can read it. */
function writeAtomically(path: string, text: string): void {
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  const temporary = `${path}.${process.pid}`;
  writeFileSync(temporary, text, { mode: 0o600, flag: "wx" });
  renameSync(temporary, path);
}

/** Prints the command that restores the backup. */
export function printBackup({ path }: Pick<BackupPatch, "path">, terminal: Pick<Terminal, "print">): void {
  const plain = oneLine(path);
  const word = /^[\w./+@-]+$/.test(plain) ? plain : `'${plain.replaceAll("'", "'\\''")}'`;
  terminal.print(`The changes are kept: git apply ${word}`);
}
