import { UserError } from "#domain/errors.ts";
import { tryAgain } from "#domain/try-again.ts";
import type { BuiltCommit } from "./build-commit.ts";
import type { Remote } from "./remote.ts";
import type { PushRequest, PushResult } from "./sandbox.ts";

/** Branches that a run must never move, whatever it is told. */
export interface ProtectedBranches {
  base: string;
  default: string | undefined;
}

/** Throws a UserError for a branch that is not the run's own. */
export function assertPushableBranch(branch: string, { base, default: main }: ProtectedBranches): void {
  if (!isBranchName(branch)) throw new UserError(`${JSON.stringify(branch)} is not a name that a branch can have.`);

  const same = (other: string | undefined) => other?.toLowerCase() === branch.toLowerCase();
  if (same(base) || same(main)) {
    throw new UserError(`A run pushes to a branch of its own, never to ${branch}.`);
  }
}

/**
 * Moves the run's branch from `expected` to the commit. Never forces, and never does it twice: an outage is waited out
 * for a while, and before each try the branch itself is asked where it stands.
 */
export function pushCommit(remote: Remote, request: PushRequest, built: BuiltCommit): Promise<PushResult> {
  return tryAgain(() => pushOnce(remote, request, built), { signal: request.signal });
}

async function pushOnce(
  remote: Remote,
  { branch, expectedTip: expected }: PushRequest,
  { commit, pack }: BuiltCommit,
): Promise<PushResult> {
  const standing = await tipOf(remote, branch);
  if (standing === commit) return { commit, moved: false };
  if (standing !== expected) throw new UserError(describeMoved(remote.name, branch, standing, expected));

  const answer = await remote.push({ branch, from: expected, to: commit, pack }).catch(async (error) => {
    // The answer is lost, not always the push: the branch itself knows.
    const now = await tipOf(remote, branch).catch(() => undefined);
    if (now === commit) return { ok: true, reason: "" };
    throw error;
  });
  if (answer.ok) return { commit, moved: true };

  const now = await tipOf(remote, branch);
  if (now === commit) return { commit, moved: false };
  throw new UserError(`${remote.name} refused the push to ${branch}: ${answer.reason}`);
}

async function tipOf(remote: Remote, branch: string): Promise<string | undefined> {
  return (await remote.refsForPush()).get(`refs/heads/${branch}`);
}

function describeMoved(name: string, branch: string, standing: string | undefined, expected: string | undefined) {
  const change = "Nothing was pushed, so that nobody's work is lost.";
  if (!standing)
    return `The branch ${branch} is gone from ${name}; this run left it at ${expected?.slice(0, 10)}. ${change}`;
  if (!expected) return `There is already a branch ${branch} in ${name}, at ${standing.slice(0, 10)}. ${change}`;
  return `The branch ${branch} of ${name} has moved on to ${standing.slice(0, 10)}: someone else pushed to it. ${change}`;
}

/** Git's own rules for the name of a branch. */
function isBranchName(name: string): boolean {
  const isOdd = name === "" || name === "HEAD" || name.startsWith("-") || name.length > 200;
  if (isOdd || /[\p{Cc} ~^:?*[\\]|\.\.|@\{/u.test(name)) return false;
  return name.split("/").every((part) => part !== "" && !part.startsWith(".") && !/(\.|\.lock)$/.test(part));
}
