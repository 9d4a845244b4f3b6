import { UserError } from "#domain/errors.ts";
import { withRetries } from "#domain/with-retries.ts";
import type { BuiltCommit } from "./build-commit.ts";
import type { Remote } from "./remote.ts";
import type { PushRequest, PushResult } from "./sandbox.ts";

/** Branches that a run must never push to. */
export interface ProtectedBranches {
  /** Undefined for a run that works on the branch of a pull request. */
  base: string | undefined;
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

type PushTarget = Pick<PushRequest, "branch" | "expectedTip" | "signal">;

/** Someone else has pushed to the branch. */
export class BranchMoved extends UserError {
  override readonly name = "BranchMoved";
}

/**
 * Moves the run's branch from `expectedTip` to the commit, without force, in one request. Retries during a short
 * outage. If the response to a successful push was lost, detects that by the branch.
 */
export function pushCommit(remote: Remote, request: PushTarget, built: BuiltCommit): Promise<PushResult> {
  return withRetries(() => pushOnce(remote, request, built), { signal: request.signal });
}

async function pushOnce(
  remote: Remote,
  { branch, expectedTip }: PushTarget,
  { commit, pack }: BuiltCommit,
): Promise<PushResult> {
  const response = await remote
    .push({ ref: `refs/heads/${branch}`, from: expectedTip, to: commit, pack })
    .catch(async (error) => {
      // The response was lost, but the push may have succeeded.
      const tip = await tipOf(remote, branch).catch(() => expectedTip);
      if (tip === commit) return { ok: true, reason: "" };
      if (tip !== expectedTip) throw branchMoved(remote.name, branch, tip, expectedTip);
      throw error;
    });
  if (response.ok) return { commit, moved: true };

  // The server compares and swaps, so the branch is checked only after a refusal.
  const tip = await tipOf(remote, branch);
  if (tip === commit) return { commit, moved: false };
  if (tip !== expectedTip) throw branchMoved(remote.name, branch, tip, expectedTip);
  throw new UserError(`${remote.name} refused the push to ${branch}: ${response.reason}`);
}

async function tipOf(remote: Remote, branch: string): Promise<string | undefined> {
  const ref = `refs/heads/${branch}`;
  return (await remote.refs([ref])).find(({ name }) => name === ref)?.oid;
}

function branchMoved(
  name: string,
  branch: string,
  tip: string | undefined,
  expectedTip: string | undefined,
): UserError {
  const change = "Nothing was pushed.";
  if (!tip) {
    return new UserError(
      `The branch ${branch} was deleted from ${name}. Its last known commit is ${expectedTip?.slice(0, 10)}. ${change}`,
    );
  }
  if (!expectedTip)
    return new UserError(`The branch ${branch} already exists in ${name}, at ${tip.slice(0, 10)}. ${change}`);
  return new BranchMoved(
    `The branch ${branch} of ${name} moved to ${tip.slice(0, 10)} because someone else pushed to it. ${change}`,
  );
}

/** Applies the rules of `git check-ref-format --branch`. */
function isBranchName(name: string): boolean {
  const isOdd = name === "" || name === "HEAD" || name.startsWith("-") || name.length > 200;
  if (isOdd || /[\p{Cc} ~^:?*[\\]|\.\.|@\{/u.test(name)) return false;
  return name.split("/").every((part) => part !== "" && !part.startsWith(".") && !/(\.|\.lock)$/.test(part));
}
