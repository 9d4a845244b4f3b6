import { createPublicKey, randomBytes, verify } from "node:crypto";
import { z } from "zod";
import type { OAuthClient } from "./pages/oauth.ts";
import { ApiError } from "./rest/api-error.ts";
import type { App, AppPermissions, Installation, User } from "./world.ts";

/** What an installation token allows. */
export interface InstallationToken {
  value: string;
  expiresAt: Date;
  installation: Installation;
  permissions: AppPermissions;
  /** Ids of repositories; undefined means every one the app is installed on. */
  repositories: ReadonlySet<number> | undefined;
}

/**
 * Who is calling: the app itself, by its signature; its installation, by a token; a person who signed in to the app, by
 * theirs; the app's OAuth client, by its secret.
 */
export type Caller =
  | { kind: "app" }
  | { kind: "installation"; token: InstallationToken }
  | { kind: "user"; user: User }
  | { kind: "client"; clientId: string };

export interface Credentials {
  /** Throws the 401 GitHub answers to what is not valid. */
  identify(authorization: string | undefined): Caller;
  issue(narrowed: Pick<InstallationToken, "installation" | "permissions" | "repositories">): InstallationToken;
  /** Makes every token of an installation worthless. */
  revokeInstallation(installation: Installation): void;
  /** A token that speaks for a person, until it is given back. */
  issueToUser(user: User): string;
  /** False for a token that nobody has. */
  revokeUserToken(userToken: string): boolean;
}

const Claims = z.object({ iss: z.union([z.string(), z.number()]), iat: z.number(), exp: z.number() });

/** Checks the app's JWT and keeps its installation's tokens, which live `tokenMs`. */
export function createCredentials({
  app,
  publicKey,
  tokenMs,
  client,
}: {
  app: Pick<App, "id">;
  publicKey: string;
  tokenMs: number;
  client?: OAuthClient | undefined;
}): Credentials {
  const key = createPublicKey(publicKey);
  const tokens = new Map<string, InstallationToken>();
  const users = new Map<string, User>();

  function identify(authorization: string | undefined): Caller {
    const presented = presentedSecret(authorization);
    if (presented === undefined) throw new ApiError(401, "Requires authentication");
    if (presented.split(".").length === 3) return checkSignature(presented);

    const user = users.get(presented);
    if (user) return { kind: "user", user };
    if (client && presented === client.clientSecret) return { kind: "client", clientId: client.clientId };
    const token = tokens.get(presented);
    if (!token || token.expiresAt.getTime() <= Date.now()) throw new ApiError(401, "Bad credentials");
    if (token.installation.suspended) throw new ApiError(403, "This installation has been suspended");
    return { kind: "installation", token };
  }

  function forget(installation: Installation): void {
    for (const [value, token] of tokens) if (token.installation === installation) tokens.delete(value);
  }

  function checkSignature(jwt: string): Caller {
    const undecodable = new ApiError(401, "A JSON web token could not be decoded");
    const [header = "", payload = "", signature = ""] = jwt.split(".");
    const signed = Buffer.from(`${header}.${payload}`);
    const claims = Claims.safeParse(decodeJson(payload));
    const algorithm = z.object({ alg: z.literal("RS256") }).safeParse(decodeJson(header));
    if (!claims.success || !algorithm.success) throw undecodable;
    if (!verify("RSA-SHA256", signed, key, Buffer.from(signature, "base64url"))) throw undecodable;

    const { iss, iat, exp } = claims.data;
    const now = Date.now() / 1000;
    if (String(iss) !== String(app.id)) throw new ApiError(404, "Integration not found");
    if (exp <= now)
      throw new ApiError(
        401,
        "'Expiration time' claim ('exp') must be a numeric value representing the future time at which the assertion expires",
      );
    if (exp > now + 10 * 60 + 60) throw new ApiError(401, "'Expiration time' claim ('exp') is too far in the future");
    if (iat > now + 60)
      throw new ApiError(
        401,
        "'Issued at' claim ('iat') must be an Integer representing the time that the assertion was issued",
      );
    return { kind: "app" };
  }

  function issue({
    installation,
    permissions,
    repositories,
  }: Pick<InstallationToken, "installation" | "permissions" | "repositories">): InstallationToken {
    const value = `ghs_${randomBytes(27).toString("base64url").replaceAll(/[-_]/g, "x")}`;
    const token = { value, expiresAt: new Date(Date.now() + tokenMs), installation, permissions, repositories };
    tokens.set(value, token);
    return token;
  }

  function issueToUser(user: User): string {
    const value = `ghu_${randomBytes(27).toString("base64url").replaceAll(/[-_]/g, "x")}`;
    users.set(value, user);
    return value;
  }

  return { identify, issue, revokeInstallation: forget, issueToUser, revokeUserToken: (token) => users.delete(token) };
}

/** The secret in `Bearer …`, `token …`, or the password of `Basic …`, as git sends it. */
function presentedSecret(authorization: string | undefined): string | undefined {
  const [scheme = "", value = ""] = (authorization ?? "").split(" ", 2);
  switch (scheme.toLowerCase()) {
    case "bearer":
    case "token":
      return value;
    case "basic":
      return Buffer.from(value, "base64")
        .toString("utf8")
        .replace(/^[^:]*:/, "");
    default:
      return undefined;
  }
}

function decodeJson(part: string): unknown {
  try {
    return JSON.parse(Buffer.from(part, "base64url").toString("utf8"));
  } catch {
    return undefined;
  }
}
