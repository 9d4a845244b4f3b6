import { z } from "zod";
import type { InstallationToken } from "#playground/github/credentials.ts";
import { showPublicUser } from "#playground/github/shapes/user.ts";
import { nameKey, type World } from "#playground/github/world.ts";
import { ApiError, notFound, orNotFound } from "./api-error.ts";
import {
  allows,
  clientOperation,
  installationOperation,
  parseBody,
  type RestOperation,
  userOperation,
} from "./operation.ts";

export const userOperations: RestOperation[] = [
  userOperation("get", "/user", ({ world, user }) => ({ status: 200, body: showPublicUser(world, user) })),

  installationOperation("get", "/users/{username}", ({ world, params }) => {
    const user = orNotFound(world.users.get(nameKey(params.username ?? "")));
    return { status: 200, body: showPublicUser(world, user) };
  }),

  installationOperation("get", "/user/{account_id}", ({ world, params }) => {
    const user = orNotFound([...world.users.values()].find(({ id }) => String(id) === params.account_id));
    return { status: 200, body: showPublicUser(world, user) };
  }),

  installationOperation("get", "/orgs/{org}/teams/{team_slug}/memberships/{username}", (request) => {
    const { world, params, token } = request;
    if (!allows(token, { members: "read" })) throw new ApiError(403, "Resource not accessible by integration");
    const { org = "", team_slug: team = "", username = "" } = params;
    // A token gives access only to the organization of its installation.
    const isOwn = nameKey(token.installation.account.login) === nameKey(org) || hasRepository(world, token, org);
    const members = isOwn ? world.teams.get(nameKey(`${org}/${team}`)) : undefined;
    if (!members?.has(nameKey(username))) throw notFound();
    const url = `${world.url}/api/v3/orgs/${org}/teams/${team}/memberships/${username}`;
    return { status: 200, body: { url, role: "member" as const, state: "active" as const } };
  }),

  clientOperation("delete", "/applications/{client_id}/token", (request) => {
    const { access_token: token } = parseBody(request, "Token", z.object({ access_token: z.string() }));
    if (!request.credentials.revokeUserToken(token)) throw notFound();
    return { status: 204, body: undefined };
  }),
];

/** True if an organization owns a repository of the token's installation: one installation serves several owners here. */
function hasRepository(world: World, { installation }: InstallationToken, org: string): boolean {
  return [...world.repositories.values()].some(
    (repository) => repository.installation === installation && nameKey(repository.owner.login) === nameKey(org),
  );
}
