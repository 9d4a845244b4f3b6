import { createHash } from "node:crypto";
import type { Check, GitHub } from "#domain/github.ts";
import { untrustedText } from "#text/untrusted.ts";
import { describeFailedChecks, isFailed } from "#toolsets/github/read-checks.ts";

/** A check that also fails on the base branch, so a run does not repair it. */
export interface BaseFailure {
  name: string;
  /** The failed check on the base branch. */
  url: string | null;
}

export interface ChecksReport {
  passed: boolean;
  /** True if every failed check also fails on the base branch. */
  failedOnBase: boolean;
  /** The failed checks for the model, marked as untrusted. */
  text: string;
  base: string;
  baseFailures: BaseFailure[];
  missingPermissions: string[];
  /** Identifies the checks and their results: another delivery about them has the same digest. */
  digest: string;
}

/** Describes the checks of a pull request's commit; undefined while some of them have not completed. */
export async function describeChecks(
  github: GitHub,
  { number, commit }: { number: number; commit: string },
): Promise<ChecksReport | undefined> {
  const pull = await github.getPullRequest(number);
  const { checks, unfinished, missingPermissions } = await github.readChecks(commit);
  if (!pull || pull.head.commit !== commit || checks.length === 0) return undefined;

  const failed = checks.filter(isFailed);
  const base = pull.base.branch;
  // A commit status may stay pending forever, so after a failure only check runs are waited for.
  const waits = failed.length === 0 ? unfinished : unfinished.filter((name) => !isStatus(checks, name));
  if (waits.length > 0) return undefined;
  if (failed.length === 0 && !(await hasRequired(github, base, checks))) return undefined;

  const onBase = failed.length === 0 ? [] : (await github.readChecks(base)).checks.filter(isFailed);
  const twinOf = (check: Check) => onBase.find(({ name, app }) => name === check.name && app === check.app);
  const own = failed.filter((check) => !twinOf(check));
  const baseFailures = failed.flatMap((check) => {
    const twin = twinOf(check);
    return twin ? [{ name: check.name, url: twin.url }] : [];
  });
  const details = await describeFailedChecks(github, own);
  return {
    passed: failed.length === 0,
    failedOnBase: failed.length > 0 && own.length === 0,
    text: describe({ commit, base, text: details.text, baseFailures }),
    base,
    baseFailures,
    missingPermissions: [...missingPermissions, ...details.missingPermissions],
    digest: digestOf(failed.length > 0 ? failed : checks),
  };
}

function isStatus(checks: readonly Check[], name: string): boolean {
  return checks.some((check) => check.name === name && check.id === undefined);
}

/**
 * True if all required checks have completed. A workflow that has not started reports nothing, so only the names that
 * the branch requires reveal that it is missing.
 */
async function hasRequired(github: GitHub, branch: string, checks: readonly Check[]): Promise<boolean> {
  const required = await github.listRequiredChecks(branch);
  return required.every((name) => checks.some((check) => check.name === name && check.status === "completed"));
}

function describe({
  commit,
  base,
  text,
  baseFailures,
}: { commit: string; text: string } & Pick<ChecksReport, "base" | "baseFailures">): string {
  if (text === "") return "";
  const names = baseFailures.map(({ name }) => name).join(", ");
  return [
    `These checks failed on ${commit.slice(0, 7)}. Find out why, fix the cause and push with update_pull_request:`,
    untrustedText(text, "check results"),
    ...(names ? [untrustedText(`These fail on ${base}, too, so leave them alone: ${names}`, "check names")] : []),
  ].join("\n");
}

/** Returns a digest of the checks and their results. A check run that runs again gets a new id; a commit status has none. */
function digestOf(checks: readonly Check[]): string {
  const ids = checks.map(({ id, name, url, conclusion }) => `${id ?? `${name} ${url}`} ${conclusion}`).sort();
  return createHash("sha256").update(ids.join("\n")).digest("hex").slice(0, 16);
}
