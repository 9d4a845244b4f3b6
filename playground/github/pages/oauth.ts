import { createHash, randomBytes } from "node:crypto";
import type { User } from "#playground/github/world.ts";

export interface OAuthClient {
  clientId: string;
  clientSecret: string;
  /** The address that browsers return to. */
  callbackUrl: string;
}

interface Grant {
  user: User;
  challenge: string;
  expiresAt: number;
}

export interface AuthorizeRequest {
  clientId: string;
  redirectUri: string;
  state: string;
  challenge: string;
}

type RedeemRequest = Record<"clientId" | "clientSecret" | "code" | "redirectUri" | "verifier", string>;

const codeLifetimeMs = 10 * 60_000;

export type OAuth = ReturnType<typeof createOAuth>;

export function createOAuth(client: OAuthClient | undefined) {
  const grants = new Map<string, Grant>();
  return {
    /** Returns what is wrong with the request; undefined for a valid one. */
    findProblem: ({ clientId, redirectUri, state, challenge }: AuthorizeRequest): string | undefined => {
      if (!client || clientId !== client.clientId) return "The client_id is unknown.";
      if (redirectUri !== client.callbackUrl) return "The redirect_uri is not the app's callback URL.";
      return state && challenge ? undefined : "The state, or the code_challenge with the method S256, is missing.";
    },
    /** Returns the address that sends the browser back, signed in as this user. */
    authorize: ({ redirectUri, state, challenge }: AuthorizeRequest, user: User): string => {
      const code = randomBytes(10).toString("hex");
      grants.set(code, { user, challenge, expiresAt: Date.now() + codeLifetimeMs });
      return `${redirectUri}?${new URLSearchParams({ code, state })}`;
    },
    /** Exchanges a code for its user, once. Returns undefined if the code, the client or the verifier is wrong. */
    redeem: ({ clientId, clientSecret, code, redirectUri, verifier }: RedeemRequest): User | undefined => {
      const grant = grants.get(code);
      grants.delete(code);
      const isClient = clientId === client?.clientId && clientSecret === client.clientSecret;
      const isProven = createHash("sha256").update(verifier).digest("base64url") === grant?.challenge;
      const isValid = isClient && isProven && redirectUri === client.callbackUrl && grant.expiresAt > Date.now();
      return isValid ? grant.user : undefined;
    },
  };
}
