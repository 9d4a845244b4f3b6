import { ZodError } from "zod";
import { OutageError, UserError } from "#domain/errors.ts";
import { type Account, GitHubRefusalError, type Permission, type RepositoryRef } from "#domain/github.ts";
import { readPermission } from "./read-responses.ts";
import { isOutage, undefinedIfMissing } from "./refusals.ts";
import type { RepositoryApi } from "./repository-api.ts";

/** For questions about people, who wait for the answer. */
const accountOptions = { timeoutMs: 8_000, maxRetries: 1, priority: "high" as const };

/** See `GitHub.getPermission`. */
export async function readPermissionOf(
  api: RepositoryApi,
  { owner, repo }: RepositoryRef,
  { login, id }: Account,
): Promise<Permission> {
  try {
    const permission = await askPermission(api, { login, id });
    if (permission !== undefined || id === undefined) return permission ?? "none";
    const current = await currentLogin(api, id);
    return (current !== undefined && (await askPermission(api, { login: current, id }))) || "none";
  } catch (error) {
    const question = `whether ${login} has write access to ${owner}/${repo}`;
    if (error instanceof GitHubRefusalError) {
      const advice = `An owner of ${owner} can check the installation of this app: that it is not suspended, that the permissions it asks for were accepted, and that no IP allow list blocks it.`;
      const message = `GitHub does not let this app look up ${question}. ${advice} The details: ${error.message}`;
      throw new GitHubRefusalError(message, { status: error.status, cause: error });
    }
    if (!isOutage(error) && !(error instanceof ZodError)) throw error;
    throw unanswered(question, error);
  }
}

/** See `GitHub.findAccount`. */
export async function findAccount(
  api: RepositoryApi,
  login: string,
): Promise<{ login: string; id: number } | undefined> {
  const request = api.call("GET /users/{username}", { username: login }, accountOptions);
  const account = await undefinedIfMissing(asOutage(request, `who ${login} is`));
  return account && { login: account.login, id: Number(account.id) };
}

/** See `GitHub.isTeamMember`. */
export async function isTeamMember(api: RepositoryApi, team: string, person: Account): Promise<boolean> {
  const login = person.id === undefined ? person.login : await currentLogin(api, person.id);
  if (login === undefined) return false;
  const [name = "", org = await api.owner()] = team.replace(/^@/, "").split("/").toReversed();
  const endpoint = "GET /orgs/{org}/teams/{team_slug}/memberships/{username}";
  const request = api.call(endpoint, { org, team_slug: name, username: login }, accountOptions);
  try {
    const membership = await undefinedIfMissing(asOutage(request, `whether ${login} is in ${org}/${name}`));
    return membership?.state === "active";
  } catch (error) {
    if (!(error instanceof GitHubRefusalError) || error.status !== 403) throw error;
    throw new UserError(
      `GitHub does not let this app read the members of @${org}/${name}. It needs the organization permission "Members: read".`,
      { cause: error },
    );
  }
}

/** Returns the login that an account has now; undefined for one that was deleted. */
async function currentLogin(api: RepositoryApi, id: number): Promise<string | undefined> {
  const request = api.call("GET /user/{account_id}", { account_id: id }, accountOptions);
  return (await undefinedIfMissing(asOutage(request, `who has the account ${id}`)))?.login;
}

/** Returns undefined if the login is not that of the account. */
async function askPermission(api: RepositoryApi, account: Account): Promise<Permission | undefined> {
  const endpoint = "GET /repos/{owner}/{repo}/collaborators/{username}/permission";
  const response = await undefinedIfMissing(api.call(endpoint, { username: account.login }, accountOptions));
  return response === undefined ? undefined : readPermission(response, account);
}

/** Turns an outage into an OutageError that names the open question. */
function asOutage<T>(response: Promise<T>, question: string): Promise<T> {
  return response.catch((error) => {
    throw isOutage(error) ? unanswered(question, error) : error;
  });
}

function unanswered(question: string, error: unknown): OutageError {
  const retryAt = error instanceof OutageError ? error.retryAt : undefined;
  return new OutageError(`GitHub did not say ${question}.`, { cause: error, retryAt });
}
