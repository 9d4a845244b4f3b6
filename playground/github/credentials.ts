import { createPublicKey, generateKeyPairSync, type KeyObject, randomBytes, sign, verify } from "node:crypto";
import { z } from "zod";
import type { OAuthClient } from "./pages/oauth.ts";
import { ApiError } from "./rest/api-error.ts";
import type { AppPermissions, Installation, PlaygroundApp, User } from "./world.ts";

export interface InstallationToken {
  value: string;
  expiresAt: Date;
  installation: Installation;
  permissions: AppPermissions;
  /** Ids of repositories; undefined means every repository of the installation. */
  repositories: ReadonlySet<number> | undefined;
}

/** The sender of a request: the app, an installation, a signed-in person, or the OAuth client of the app. */
export type Caller =
  | { kind: "app" }
  | { kind: "installation"; token: InstallationToken }
  | { kind: "user"; user: User }
  | { kind: "client"; clientId: string };

const Claims = z.object({ iss: z.union([z.string(), z.number()]), iat: z.number(), exp: z.number() });
const Algorithm = z.object({ alg: z.literal("RS256") });

const tokenKey = generateKeyPairSync("ec", { namedCurve: "P-256" }).privateKey;

/** Checks the app's signature, and issues and checks the tokens of its installations and users. */
export class Credentials {
  readonly #app: Pick<PlaygroundApp, "id">;
  readonly #key: KeyObject;
  readonly #tokenMs: number;
  readonly #client: OAuthClient | undefined;
  readonly #tokens = new Map<string, InstallationToken>();
  readonly #users = new Map<string, User>();

  constructor(options: {
    app: Pick<PlaygroundApp, "id">;
    /** The app's key in PEM: the public half, or the private one it is derived from. */
    key: string;
    /** The lifetime of an installation token. */
    tokenMs: number;
    client: OAuthClient | undefined;
  }) {
    this.#app = options.app;
    this.#key = createPublicKey(options.key);
    this.#tokenMs = options.tokenMs;
    this.#client = options.client;
  }

  /** Throws the 401 that GitHub answers to invalid credentials. */
  identify(authorization: string | undefined): Caller {
    const secret = presentedSecret(authorization);
    if (secret === undefined) throw new ApiError(401, "Requires authentication");

    const token = this.#tokens.get(secret);
    if (token && token.expiresAt.getTime() > Date.now()) {
      if (token.installation.suspended) throw new ApiError(403, "This installation has been suspended");
      return { kind: "installation", token };
    }
    const user = this.#users.get(secret);
    if (user) return { kind: "user", user };
    if (this.#client && secret === this.#client.clientSecret)
      return { kind: "client", clientId: this.#client.clientId };
    if (!secret.startsWith("gh") && secret.split(".").length === 3) return this.#checkSignature(secret);
    throw new ApiError(401, "Bad credentials");
  }

  accepts(authorization: string | undefined): boolean {
    try {
      this.identify(authorization);
      return true;
    } catch (error) {
      if (error instanceof ApiError) return false;
      throw error;
    }
  }

  /** Issues a token as long as GitHub's: `ghs_<app id>_<JWT>`, about 520 characters. */
  issue(scope: Pick<InstallationToken, "installation" | "permissions" | "repositories">): InstallationToken {
    const expiresAt = new Date(Date.now() + this.#tokenMs);
    const jwt = signedJwt({
      iss: "https://token.actions.github.invalid",
      aud: "https://api.github.invalid",
      sub: `app:${this.#app.id}:installation:${scope.installation.id}`,
      jti: randomBytes(40).toString("hex"),
      iat: Math.floor(Date.now() / 1000),
      exp: Math.floor(expiresAt.getTime() / 1000),
    });
    const token = { ...scope, value: `ghs_${this.#app.id}_${jwt}`, expiresAt };
    this.#tokens.set(token.value, token);
    return token;
  }

  /** Revokes an installation's token. */
  revoke(value: string): void {
    this.#tokens.delete(value);
  }

  revokeInstallation(installation: Installation): void {
    for (const [value, token] of this.#tokens) if (token.installation === installation) this.#tokens.delete(value);
  }

  /** Issues a token with which the app acts as a person, valid until it is revoked. */
  issueToUser(user: User): string {
    const value = `ghu_${randomBytes(27).toString("hex").slice(0, 36)}`;
    this.#users.set(value, user);
    return value;
  }

  /** Returns false for an unknown token. */
  revokeUserToken(token: string): boolean {
    return this.#users.delete(token);
  }

  #checkSignature(jwt: string): Caller {
    const undecodable = new ApiError(401, "A JSON web token could not be decoded");
    const [header = "", payload = "", signature = ""] = jwt.split(".");
    const claims = Claims.safeParse(decodeJson(payload));
    if (!claims.success || !Algorithm.safeParse(decodeJson(header)).success) throw undecodable;
    const signed = Buffer.from(`${header}.${payload}`);
    if (!verify("RSA-SHA256", signed, this.#key, Buffer.from(signature, "base64url"))) throw undecodable;

    const { iss, iat, exp } = claims.data;
    const now = Date.now() / 1000;
    if (String(iss) !== String(this.#app.id)) throw new ApiError(404, "Integration not found");
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
}

/** Returns the secret in `Bearer …` or `token …`, or the password in `Basic …`, which git sends. */
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

function signedJwt(claims: object): string {
  const encode = (part: object) => Buffer.from(JSON.stringify(part)).toString("base64url");
  const signed = `${encode({ typ: "JWT", alg: "ES256", kid: "installation-tokens-2026-04" })}.${encode(claims)}`;
  const signature = sign("SHA256", Buffer.from(signed), { key: tokenKey, dsaEncoding: "ieee-p1363" });
  return `${signed}.${signature.toString("base64url")}`;
}

function decodeJson(part: string): unknown {
  try {
    return JSON.parse(Buffer.from(part, "base64url").toString("utf8"));
  } catch {
    return undefined;
  }
}
