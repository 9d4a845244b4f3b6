import { mkdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { homedir, tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import type { Checkout } from "#sandbox/checkout/open-checkout.ts";
import { writePatch } from "#sandbox/checkout/write-patch.ts";
import type { Place } from "./place.ts";

/** The changes of a run as a patch file outside the checkout, so that no end of this process loses them. */
export interface KeptPatch {
  readonly path: string;
  /** Writes what has changed by now, at once. Resolves to false when nothing has. */
  keep(): boolean;
  /** They are somewhere else now, or nowhere. */
  drop(): void;
}

/** Keeps patches in the folder for such things: `XDG_STATE_HOME`, otherwise `~/.local/state`. */
export function keptPatch(
  checkout: Pick<Checkout, "root" | "changes">,
  id: string,
  { env }: Pick<Place, "env">,
): KeptPatch {
  const name = `${basename(checkout.root).replaceAll(/[^\w.-]/g, "_")}-${id}.patch`;
  let path = join(env.XDG_STATE_HOME || join(homedir(), ".local/state"), "golem-forge", name);
  let written = "";

  return {
    get path() {
      return path;
    },
    keep() {
      const patch = writePatch(checkout.changes());
      if (patch === written) return patch !== "";
      if (patch === "") rmSync(path, { force: true });
      else path = writeSomewhere(path, patch);
      written = patch;
      return patch !== "";
    },
    drop() {
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
