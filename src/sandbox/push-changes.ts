import { UserError } from "#domain/errors.ts";
import { withRetries } from "#domain/with-retries.ts";
import type { BuiltCommit } from "./build-commit.ts";
import type { Remote } from "./remote.ts";
import type { PushRequest, PushResult } from "./sandbox.ts";

/** Branches that a run must never push to. */
export interface ProtectedBranches {
  base: string;
  default: string | undefined;
}

/** Throws a UserError for an invalid branch name, and for the base or default branch. */
export function assertPushableBranch(branch: string, { base, default: main }: ProtectedBranches): void {
  if (!isBranchName(branch)) throw new UserError(`${JSON.stringify(branch)} is not a valid branch name.`);

  const same = (other: string | undefined) => other?.toLowerCase() === branch.toLowerCase();
  if (same(base) || same(main)) {
    throw new UserError(`A run can only push to its own branch, not to ${branch}.`);
  }
}

/**
 * Moves the run's branch from `expectedTip` to the commit, without force. Retries during a short outage, and reads the
 * branch before each attempt so that a push is never repeated.
 */
export function pushCommit(remote: Remote, request: PushRequest, built: BuiltCommit): Promise<PushResult> {
  return withRetries(() => pushOnce(remote, request, built), { signal: request.signal });
}

async function pushOnce(
  remote: Remote,
  { branch, expectedTip }: PushRequest,
  { commit, pack }: BuiltCommit,
): Promise<PushResult> {
  const tip = await tipOf(remote, branch);
  if (tip === commit) return { commit, moved: false };
  if (tip !== expectedTip) throw new UserError(describeMoved(remote.name, branch, tip, expectedTip));

  const answer = await remote.push({ branch, from: expectedTip, to: commit, pack }).catch(async (error) => {
    // The response was lost, but the push may have succeeded.
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

function describeMoved(name: string, branch: string, tip: string | undefined, expectedTip: string | undefined) {
  const change = "Nothing was pushed.";
  if (!tip)
    return `The branch ${branch} was deleted from ${name}. Its last known commit is ${expectedTip?.slice(0, 10)}. ${change}`;
  if (!expectedTip) return `The branch ${branch} already exists in ${name}, at ${tip.slice(0, 10)}. ${change}`;
  return `The branch ${branch} of ${name} moved to ${tip.slice(0, 10)} because someone else pushed to it. ${change}`;
}

/** Applies the rules of `git check-ref-format --branch`. */
function isBranchName(name: string): boolean {
  const isOdd = name === "" || name === "HEAD" || name.startsWith("-") || name.length > 200;
  if (isOdd || /[\p{Cc} ~^:?*[\\]|\.\.|@\{/u.test(name)) return false;
  return name.split("/").every((part) => part !== "" && !part.startsWith(".") && !/(\.|\.lock)$/.test(part));
}
