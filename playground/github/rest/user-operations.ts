import { z } from "zod";
import { showPublicUser } from "#playground/github/shapes/user.ts";
import { notFound } from "./api-error.ts";
import { clientOperation, type RestOperation, readBody, userOperation } from "./operation.ts";

export const userOperations: RestOperation[] = [
  userOperation("get", "/user", ({ world, user }) => ({ status: 200, body: showPublicUser(world, user) })),

  clientOperation("delete", "/applications/{client_id}/token", (request) => {
    const { access_token: token } = readBody(request, "Token", z.object({ access_token: z.string() }));
    if (!request.credentials.revokeUserToken(token)) throw notFound();
    return { status: 204, body: undefined };
  }),
];
