import { existsSync, writeFileSync } from "node:fs";
import { resolve } from "node:path";
import { UserError } from "#domain/errors.ts";
import { applyChanges, type FailedFile } from "#sandbox/checkout/apply-changes.ts";
import { commitOnBranch } from "#sandbox/checkout/commit-on-branch.ts";
import type { Checkout, CheckoutChange } from "#sandbox/checkout/open-checkout.ts";
import { writePatch } from "#sandbox/checkout/write-patch.ts";
import { linesOf, oneLine, paintDiff } from "#terminal/render-value.ts";
import type { Desk } from "./desk.ts";
import type { KeptPatch } from "./keep-patch.ts";
import type { Place } from "./place.ts";
import type { Ending } from "./run-request.ts";
import { sayKept } from "./say-kept.ts";

/** Where the changes went. */
export type HandedOver =
  | { kind: "nothing" }
  | { kind: "applied"; files: number }
  | { kind: "patch"; path: string }
  | { kind: "branch"; branch: string; commit: string }
  | { kind: "thrown away" };

export interface HandOver {
  checkout: Checkout;
  kept: KeptPatch;
  ending: Ending;
  desk: Desk;
  place: Place;
  branch: string;
  /** Of the commit. */
  message: string;
  /** The worker did not come to its end, so nothing is applied or committed without a look. */
  isUnfinished: boolean;
  /** The person wants to be asked nothing more. */
  isLeaving: boolean;
}

/**
 * Brings a worker's changes to where the person wants them; asks where nothing was said. Whatever cannot be done leaves
 * them in the patch file that is kept. `asWished` is false when it is not what was asked for.
 */
export async function handOver(given: HandOver): Promise<{ done: HandedOver; asWished: boolean }> {
  const { checkout, kept, ending, desk, isUnfinished, isLeaving } = given;
  const changes = checkout.changes();
  if (changes.length === 0) {
    desk.say("Nothing was changed.");
    return { done: { kind: "nothing" }, asWished: true };
  }
  kept.keep();
  if (isLeaving) return { done: leave(given), asWished: true };
  if (ending && ending.kind !== "patch" && isUnfinished) {
    desk.say(`The worker did not finish, so --${ending.kind} was not done.`);
    return { done: leave(given), asWished: true };
  }
  if (ending) {
    const done = await carryOut(ending, changes, given);
    return done ? { done, asWished: true } : { done: leave(given), asWished: false };
  }
  const done = (await askFor(changes, given)) ?? leave(given);
  return { done, asWished: true };
}

const question = "[a]pply / [d]iff / [b]ranch / [p]atch [file] / [t]hrow away: ";

async function askFor(changes: readonly CheckoutChange[], given: HandOver): Promise<HandedOver | undefined> {
  const { desk, kept } = given;
  const count = `${changes.length} ${changes.length === 1 ? "file is" : "files are"} changed, in memory only.`;
  if (desk.canAsk) desk.say("", count);
  for (;;) {
    const typed = await desk.ask(question);
    if (typed === undefined) return undefined;
    const [, word = "", rest = ""] = /^\s*(\S*)\s*(.*?)\s*$/s.exec(typed) ?? [];
    switch (word.toLowerCase()) {
      case "d":
      case "diff":
        desk.say(...linesOf(writePatch(changes)).map((line) => paintDiff(line, desk.paint)));
        continue;
      case "t":
      case "throw": {
        const sure = await desk.ask("They are gone then. Throw them away? [y/N] ");
        if (!/^\s*y(es)?\s*$/i.test(sure ?? "")) continue;
        kept.drop();
        desk.say("Thrown away.");
        return { kind: "thrown away" };
      }
      case "a":
      case "apply":
      case "b":
      case "branch":
      case "p":
      case "patch": {
        const done = await carryOut(endingOf(word, rest), changes, given);
        if (done) return done;
        continue;
      }
      default:
        desk.say(
          word === ""
            ? "Say one of these. Ctrl+C leaves, and keeps a patch file."
            : `${oneLine(word)} is none of these.`,
        );
    }
  }
}

function endingOf(word: string, rest: string): Ending {
  const letter = word[0]?.toLowerCase();
  if (letter === "a") return { kind: "apply" };
  return letter === "b" ? { kind: "branch" } : rest === "" ? undefined : { kind: "patch", file: rest };
}

/** Undefined when it could not be done, which was said then. */
async function carryOut(
  ending: Ending,
  changes: readonly CheckoutChange[],
  given: HandOver,
): Promise<HandedOver | undefined> {
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
    // Whatever git or the disk has against it, the person can choose again.
    const isReadable = error instanceof UserError || (error as NodeJS.ErrnoException).code !== undefined;
    if (!isReadable) throw error;
    complain(given.desk, (error as Error).message);
    return undefined;
  }
}

function apply(changes: readonly CheckoutChange[], { checkout, desk, kept }: HandOver): HandedOver | undefined {
  const { applied, refused, failed } = applyChanges(checkout.root, changes);
  if (refused.length > 0) {
    complain(desk, "Nothing was applied, because these do not fit what is on disk now:");
    desk.say(...listRefusals(refused));
    return undefined;
  }
  const marks = { written: "✓", deleted: "✓", merged: "⇄", unchanged: "=" } as const;
  const notes = {
    written: "",
    deleted: " (deleted)",
    merged: " (merged with what was changed on disk meanwhile)",
    unchanged: " (already up to date)",
  };
  desk.say(
    ...applied.map(({ path, outcome }) => `${desk.paint("green", marks[outcome])} ${oneLine(path)}${notes[outcome]}`),
  );
  if (failed.length > 0) {
    complain(desk, "These could not be written:");
    desk.say(...listRefusals(failed));
    return undefined;
  }
  kept.drop();
  desk.say(`Applied to ${oneLine(checkout.root)}.`);
  return { kind: "applied", files: applied.length };
}

function writeTo(
  file: string,
  changes: readonly CheckoutChange[],
  { desk, kept, place }: HandOver,
): HandedOver | undefined {
  const path = resolve(place.cwd, file);
  if (existsSync(path)) {
    complain(desk, `${oneLine(path)} is there already: name another file.`);
    return undefined;
  }
  writeFileSync(path, writePatch(changes), { flag: "wx" });
  kept.drop();
  desk.say(`Written to ${oneLine(path)}`);
  return { kind: "patch", path };
}

async function commit(
  changes: readonly CheckoutChange[],
  { checkout, desk, kept, branch, message }: HandOver,
): Promise<HandedOver> {
  const staged = new Set(checkout.staged());
  const taken = staged.size > 0 ? changes.filter(({ path }) => staged.has(path)) : changes;
  const stale = taken.find(({ isStale }) => isStale);
  if (stale) throw new UserError(`${stale.path} was changed on disk before the worker read it.`);

  const { commit, withUncommitted } = await commitOnBranch(checkout, { branch, changes: taken, message });
  desk.say(`Committed ${commit.slice(0, 7)} on ${branch}: git switch ${branch}`);
  if (withUncommitted.length > 0) {
    desk.say(`With what you had not committed yourself in ${withUncommitted.map(oneLine).join(", ")}.`);
  }
  if (taken.length === changes.length) kept.drop();
  else {
    const rest = changes.length - taken.length;
    desk.say(
      `The worker staged only these; ${rest} more ${rest === 1 ? "file is" : "files are"} in the patch ${oneLine(kept.path)}`,
    );
  }
  return { kind: "branch", branch, commit };
}

/** The patch file that is kept is what is left. */
function leave({ kept, desk }: HandOver): HandedOver {
  kept.keep();
  sayKept(kept, desk);
  return { kind: "patch", path: kept.path };
}

function listRefusals(refusals: readonly FailedFile[]): string[] {
  return refusals.map(({ path, reason }) => `  ${oneLine(path)} ${oneLine(reason)}`);
}

function complain(desk: Desk, sentence: string): void {
  desk.say(`${desk.paint("red", "✗")} ${oneLine(sentence)}`);
}
