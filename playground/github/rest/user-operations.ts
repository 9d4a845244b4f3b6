import { z } from "zod";
import { showPublicUser } from "#playground/github/shapes/user.ts";
import { nameKey } from "#playground/github/world.ts";
import { notFound } from "./api-error.ts";
import { clientOperation, installationOperation, type RestOperation, readBody, userOperation } from "./operation.ts";

export const userOperations: RestOperation[] = [
  userOperation("get", "/user", ({ world, user }) => ({ status: 200, body: showPublicUser(world, user) })),

  installationOperation("get", "/users/{username}", ({ world, params }) => {
    const user = world.users.get(nameKey(params.username ?? ""));
    if (!user) throw notFound();
    return { status: 200, body: showPublicUser(world, user) };
  }),

  clientOperation("delete", "/applications/{client_id}/token", (request) => {
    const { access_token: token } = readBody(request, "Token", z.object({ access_token: z.string() }));
    if (!request.credentials.revokeUserToken(token)) throw notFound();
    return { status: 204, body: undefined };
  }),
];
