import { deflateSync } from "node:zlib";
import { diffFile, type FileVersion, isBinary, modeLines, modeOf, quotePath } from "#sandbox/diff-file.ts";
import { hashObject } from "#sandbox/git-objects.ts";
import type { CheckoutChange } from "./open-checkout.ts";

type Versions = Pick<CheckoutChange, "path" | "before" | "after">;

/** Formats changes, including modes and binary files, as a patch for `git apply`. */
export function writePatch(changes: readonly Versions[]): string {
  return changes.flatMap(asOneKind).map(patchOf).join("");
}

/** Splits a change between a file and a link into a deletion and an addition, as git does. */
function asOneKind({ path, before, after }: Versions): Versions[] {
  if (!before || !after || before.isLink === after.isLink) return [{ path, before, after }];
  return [
    { path, before, after: undefined },
    { path, before: undefined, after },
  ];
}

function patchOf({ path, before, after }: Versions): string {
  if (isBinary(before) || isBinary(after)) return binaryPatch(path, before, after);
  return diffFile(path, { before, after });
}

function binaryPatch(path: string, before: FileVersion | undefined, after: FileVersion | undefined): string {
  const modes = modeLines(before, after);
  const sameMode = before && after && modes.length === 0 ? ` ${modeOf(after)}` : "";
  return [
    `diff --git ${quotePath(`a/${path}`)} ${quotePath(`b/${path}`)}`,
    ...modes,
    `index ${oidOf(before)}..${oidOf(after)}${sameMode}`,
    "GIT binary patch",
    ...literal(after),
    ...literal(before),
  ]
    .map((line) => `${line}\n`)
    .join("");
}

function oidOf(version: FileVersion | undefined): string {
  return version ? hashObject({ type: "blob", data: Buffer.from(version.content) }) : "0".repeat(40);
}

function literal(version: FileVersion | undefined): string[] {
  const content = version?.content ?? new Uint8Array();
  const packed = deflateSync(content);
  const lines = [`literal ${content.length}`];
  for (let at = 0; at < packed.length; at += 52) lines.push(encodeLine(packed.subarray(at, at + 52)));
  return [...lines, ""];
}

const letters = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~";

/** Git's base 85: the number of bytes as a letter, then five letters for each four bytes. */
function encodeLine(bytes: Buffer): string {
  const length = String.fromCharCode(bytes.length <= 26 ? 64 + bytes.length : 96 + bytes.length - 26);
  const padded = Buffer.alloc(Math.ceil(bytes.length / 4) * 4);
  bytes.copy(padded);
  const groups = Array.from({ length: padded.length / 4 }, (_, index) => encodeGroup(padded.readUInt32BE(index * 4)));
  return length + groups.join("");
}

function encodeGroup(number: number): string {
  let rest = number;
  let text = "";
  for (let index = 0; index < 5; index++) {
    text = letters.charAt(rest % 85) + text;
    rest = Math.floor(rest / 85);
  }
  return text;
}
