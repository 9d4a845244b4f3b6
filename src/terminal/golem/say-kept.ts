import { oneLine } from "#terminal/render-value.ts";
import type { Desk } from "./desk.ts";
import type { KeptPatch } from "./keep-patch.ts";

/** Says where the changes lie, as the command that brings them back. */
export function sayKept({ path }: Pick<KeptPatch, "path">, desk: Pick<Desk, "say">): void {
  const plain = oneLine(path);
  const word = /^[\w./+@-]+$/.test(plain) ? plain : `'${plain.replaceAll("'", "'\\''")}'`;
  desk.say(`The changes are kept: git apply ${word}`);
}
