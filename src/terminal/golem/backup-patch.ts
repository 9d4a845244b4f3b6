import { mkdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { homedir, tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import type { Checkout } from "#sandbox/checkout/open-checkout.ts";
import { writePatch } from "#sandbox/checkout/write-patch.ts";
import { oneLine } from "#terminal/render-value.ts";
import type { CommandContext } from "./command-context.ts";
import type { Terminal } from "./terminal.ts";

/** The changes of a run as a patch file outside the checkout, so that no end of this process loses them. */
export interface BackupPatch {
  readonly path: string;
  /** Writes what has changed by now, at once. Resolves to false when nothing has. */
  save(): boolean;
  /** They are somewhere else now, or nowhere. */
  discard(): void;
}

/** Keeps patches in the folder for such things: `XDG_STATE_HOME`, otherwise `~/.local/state`. */
export function createBackupPatch(
  checkout: Pick<Checkout, "root" | "changes">,
  id: string,
  { env }: Pick<CommandContext, "env">,
): BackupPatch {
  const name = `${basename(checkout.root).replaceAll(/[^\w.-]/g, "_")}-${id}.patch`;
  let path = join(env.XDG_STATE_HOME || join(homedir(), ".local/state"), "golem-forge", name);
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

/** A home that cannot be written to is no reason to lose the work. */
function writeSomewhere(path: string, patch: string): string {
  try {
    writeWhole(path, patch);
    return path;
  } catch {
    const other = join(tmpdir(), basename(path));
    writeWhole(other, patch);
    return other;
  }
}

/** Readable by this person alone, and never half there. */
function writeWhole(path: string, text: string): void {
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  const besides = `${path}.${process.pid}`;
  writeFileSync(besides, text, { mode: 0o600, flag: "wx" });
  renameSync(besides, path);
}

/** Prints where the backup is, as the command that restores it. */
export function printBackup({ path }: Pick<BackupPatch, "path">, terminal: Pick<Terminal, "print">): void {
  const plain = oneLine(path);
  const word = /^[\w./+@-]+$/.test(plain) ? plain : `'${plain.replaceAll("'", "'\\''")}'`;
  terminal.print(`The changes are kept: git apply ${word}`);
}
