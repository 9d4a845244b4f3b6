import { existsSync, mkdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, dirname, join, resolve } from "node:path";
import { messageOf, UserError } from "#domain/errors.ts";
import { applyChanges, type FailedFile } from "#sandbox/checkout/apply-changes.ts";
import { commitOnBranch, writePatch } from "#sandbox/checkout/export-changes.ts";
import type { Checkout, CheckoutChange } from "#sandbox/checkout/open-checkout.ts";
import { isYes } from "#terminal/prompter.ts";
import { visible } from "#terminal/style.ts";
import { oneLine, styleDiffLine } from "#terminal/value-to-text.ts";
import { pluralize } from "#text/pluralize.ts";
import { truncateLine } from "#text/truncate.ts";
import type { CommandContext } from "./command-context.ts";
import type { ChangesDestination } from "./run-request.ts";
import { checkoutName, stateFolder } from "./saved-runs.ts";
import type { Terminal } from "./terminal.ts";

/** The result of the decision about the changes. */
export type HandledChanges =
  | { kind: "nothing" }
  | { kind: "applied"; files: number }
  | { kind: "patch"; path: string }
  | { kind: "branch"; branch: string; commit: string }
  | { kind: "discarded" };

export interface ChangesToHandle {
  checkout: Checkout;
  backup: BackupPatch;
  ending: ChangesDestination;
  terminal: Terminal;
  context: CommandContext;
  branch: string;
  message: string;
  /** True if the worker did not finish. Its changes are then not applied or committed without a review. */
  isUnfinished: boolean;
  /** True if the person is leaving and must not be asked anything else. */
  isLeaving: boolean;
  isQuiet: boolean;
}

/** Applies, saves or discards the changes. If that fails, they stay in the patch file; `asRequested` is false. */
export async function handleChanges(given: ChangesToHandle): Promise<{ done: HandledChanges; asRequested: boolean }> {
  const { checkout, backup, ending, terminal, isUnfinished, isLeaving, isQuiet } = given;
  const changes = checkout.changes();
  if (changes.length === 0) {
    if (!isQuiet) terminal.print("Nothing was changed.");
    return { done: { kind: "nothing" }, asRequested: true };
  }
  backup.save();
  if (isLeaving) return { done: leave(given), asRequested: true };
  if (ending && ending.kind !== "patch" && isUnfinished) {
    terminal.print(`The worker did not finish, so --${ending.kind} was not done.`);
    return { done: leave(given), asRequested: true };
  }
  if (ending) {
    const done = await carryOut(ending, changes, given);
    return done ? { done, asRequested: true } : { done: leave(given), asRequested: false };
  }
  const done = (await askFor(changes, given)) ?? leave(given);
  return { done, asRequested: true };
}

const question = "[a]pply / [d]iff / [b]ranch / [p]atch [file] / [x] discard: ";

async function askFor(changes: readonly CheckoutChange[], given: ChangesToHandle): Promise<HandledChanges | undefined> {
  const { terminal, backup } = given;
  const count = `${pluralize(changes.length, "file is", "files are")} changed in memory only.`;
  if (terminal.isInteractive) terminal.print("", count);
  for (;;) {
    const typed = await terminal.askToDecide(question);
    if (typed === undefined) return undefined;
    const line = typed.trim();
    // Only a file may follow, so that no sentence is taken for a choice.
    const [, patch, file = ""] = /^(p|patch)(?:\s+(\S+))?$/i.exec(line) ?? [];
    const choice = (patch ?? line).toLowerCase();
    switch (choice) {
      case "d":
      case "diff": {
        // Whole, because this decides what is applied.
        const lines = visible(writePatch(changes)).replace(/\n$/, "").split("\n");
        terminal.print(...lines.map((line) => styleDiffLine(line, terminal.paint)));
        continue;
      }
      case "x":
      case "discard": {
        const sure = await terminal.askToDecide("Discard all changes? [y/N] ");
        if (!isYes(sure)) continue;
        backup.discard();
        terminal.print("Discarded.");
        return { kind: "discarded" };
      }
      case "a":
      case "apply":
      case "b":
      case "branch":
      case "p":
      case "patch": {
        const done = await carryOut(endingOf(choice, file), changes, given);
        if (done) return done;
        continue;
      }
      default:
        terminal.print(
          choice === ""
            ? "Choose one of these. Ctrl+C leaves and keeps a patch file."
            : `${oneLine(truncateLine(line, 60))} is not one of these.`,
        );
    }
  }
}

function endingOf(choice: string, file: string): ChangesDestination {
  if (choice.startsWith("a")) return { kind: "apply" };
  return choice.startsWith("b") ? { kind: "branch" } : file === "" ? undefined : { kind: "patch", file };
}

/** Delivers the changes. If that fails, prints the reason and returns undefined. */
async function carryOut(
  ending: ChangesDestination,
  changes: readonly CheckoutChange[],
  given: ChangesToHandle,
): Promise<HandledChanges | undefined> {
  if (!ending) return leave(given);
  try {
    switch (ending.kind) {
      case "apply":
        return apply(changes, given);
      case "patch":
        return writeTo(ending.file, changes, given);
      case "branch":
        return await commit(changes, given);
    }
  } catch (error) {
    // After a git or disk error the person can choose again.
    const isReadable = error instanceof UserError || (error as NodeJS.ErrnoException).code !== undefined;
    if (!isReadable) throw error;
    complain(given.terminal, messageOf(error));
    return undefined;
  }
}

function apply(
  changes: readonly CheckoutChange[],
  { checkout, terminal, backup }: ChangesToHandle,
): HandledChanges | undefined {
  const { applied, refused, failed } = applyChanges(checkout.root, changes);
  if (refused.length > 0) {
    complain(terminal, "Nothing was applied, because these do not match the files on disk:");
    terminal.print(...listRefusals(refused));
    return undefined;
  }
  const marks = { written: "✓", deleted: "✓", merged: "⇄", unchanged: "=" } as const;
  const notes = {
    written: "",
    deleted: " (deleted)",
    merged: " (merged with what was changed on disk meanwhile)",
    unchanged: " (already up to date)",
  };
  terminal.print(
    ...applied.map(
      ({ path, outcome }) => `${terminal.paint("green", marks[outcome])} ${oneLine(path)}${notes[outcome]}`,
    ),
  );
  if (failed.length > 0) {
    complain(terminal, "These could not be written:");
    terminal.print(...listRefusals(failed));
    return undefined;
  }
  backup.discard();
  terminal.print(`Applied to ${oneLine(checkout.root)}.`);
  return { kind: "applied", files: applied.length };
}

function writeTo(
  file: string,
  changes: readonly CheckoutChange[],
  { terminal, backup, context }: ChangesToHandle,
): HandledChanges | undefined {
  const path = resolve(context.cwd, file);
  if (existsSync(path)) {
    complain(terminal, `${oneLine(path)} already exists: choose another file.`);
    return undefined;
  }
  const folder = dirname(path);
  if (!existsSync(folder)) {
    complain(terminal, `The folder ${oneLine(folder)} does not exist: create it, or choose another file.`);
    return undefined;
  }
  writeFileSync(path, writePatch(changes), { flag: "wx" });
  backup.discard();
  terminal.print(`Written to ${oneLine(path)}`);
  return { kind: "patch", path };
}

async function commit(
  changes: readonly CheckoutChange[],
  { checkout, terminal, backup, branch, message }: ChangesToHandle,
): Promise<HandledChanges> {
  if (!checkout.isRepository) {
    throw new UserError(`${checkout.root} is not the root of a git repository, so there is no branch to commit to.`);
  }
  const staged = new Set(checkout.staged());
  const taken = staged.size > 0 ? changes.filter(({ path }) => staged.has(path)) : changes;
  const stale = taken.find(({ isStale }) => isStale);
  if (stale) throw new UserError(`${stale.path} was changed on disk before the worker read it.`);

  const { commit, withUncommitted } = await commitOnBranch(checkout, { branch, changes: taken, message });
  terminal.print(`Committed ${commit.slice(0, 7)} on ${branch}: git switch ${branch}`);
  if (withUncommitted.length > 0) {
    terminal.print(`The commit includes your own uncommitted changes in ${withUncommitted.map(oneLine).join(", ")}.`);
  }
  if (taken.length === changes.length) backup.discard();
  else {
    const rest = changes.length - taken.length;
    terminal.print(
      `The worker staged only these; ${pluralize(rest, "more file is", "more files are")} in the patch ${oneLine(backup.path)}`,
    );
  }
  return { kind: "branch", branch, commit };
}

/** Leaves the changes in the backup patch. */
function leave({ backup, terminal }: ChangesToHandle): HandledChanges {
  backup.save();
  printBackup(backup, terminal);
  return { kind: "patch", path: backup.path };
}

function listRefusals(refusals: readonly FailedFile[]): string[] {
  return refusals.map(({ path, reason }) => `  ${oneLine(path)} ${oneLine(reason)}`);
}

function complain(terminal: Terminal, sentence: string): void {
  terminal.print(`${terminal.paint("red", "✗")} ${oneLine(sentence)}`);
}

/** A patch file outside the checkout with the changes of a run. It survives a crash of this process. */
export type BackupPatch = ReturnType<typeof createBackupPatch>;

export function createBackupPatch(
  checkout: Pick<Checkout, "root" | "changes">,
  id: string,
  { env }: Pick<CommandContext, "env">,
) {
  let path = join(stateFolder({ env }), `${checkoutName(checkout.root)}-${id}.patch`);
  let written = "";

  return {
    get path(): string {
      return path;
    },
    /** Writes the changes made so far. Returns false when there are none. */
    save(): boolean {
      const patch = writePatch(checkout.changes());
      if (patch === written) return patch !== "";
      if (patch === "") rmSync(path, { force: true });
      else path = writeSomewhere(path, patch);
      written = patch;
      return patch !== "";
    },
    /** Deletes the file: the changes were applied, saved or discarded. */
    discard(): void {
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
