import { z } from "zod";
import { notFound } from "#playground/api-error.ts";
import { clientOperation, type Operation, readBody, userOperation } from "#playground/operation.ts";
import { showPublicUser } from "#playground/shapes/user.ts";

export const userOperations: Operation[] = [
  userOperation("get", "/user", ({ world, user }) => ({ status: 200, body: showPublicUser(world, user) })),

  clientOperation("delete", "/applications/{client_id}/token", (call) => {
    const { access_token: token } = readBody(call, "Token", z.object({ access_token: z.string() }));
    if (!call.credentials.revoke(token)) throw notFound();
    return { status: 204, body: undefined };
  }),
];
