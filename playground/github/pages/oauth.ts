import { createHash, randomBytes } from "node:crypto";
import type { User } from "#playground/github/world.ts";

/** The app's own OAuth client, as its settings page has it. */
export interface OAuthClient {
  clientId: string;
  clientSecret: string;
  /** Where browsers are sent back to. */
  callbackUrl: string;
}

interface Grant {
  user: User;
  challenge: string;
  expiresAt: number;
}

/** What a browser brings to be let in: checked before anybody is asked who they are. */
export interface AuthorizeRequest {
  clientId: string;
  redirectUri: string;
  state: string;
  challenge: string;
}

export interface OAuth {
  /** Why this request is not one of our client's; undefined when it is. */
  refuse(request: AuthorizeRequest): string | undefined;
  /** The address to send the browser back to, as this person. */
  grant(request: AuthorizeRequest, user: User): string;
  /** The person a code was given for, once; undefined for a code, client or verifier that is not right. */
  redeem(given: {
    clientId: string;
    clientSecret: string;
    code: string;
    redirectUri: string;
    verifier: string;
  }): User | undefined;
}

const codeMs = 10 * 60_000;

export function createOAuth(client: OAuthClient | undefined): OAuth {
  const grants = new Map<string, Grant>();
  return {
    refuse: ({ clientId, redirectUri, state, challenge }) => {
      if (!client || clientId !== client.clientId) return "There is no app with this client_id.";
      if (redirectUri !== client.callbackUrl) return "The redirect_uri is not the app's callback URL.";
      return state && challenge ? undefined : "There is no state, or no code_challenge with the method S256.";
    },
    grant: ({ redirectUri, state, challenge }, user) => {
      const code = randomBytes(10).toString("hex");
      grants.set(code, { user, challenge, expiresAt: Date.now() + codeMs });
      return `${redirectUri}?${new URLSearchParams({ code, state })}`;
    },
    redeem: ({ clientId, clientSecret, code, redirectUri, verifier }) => {
      const grant = grants.get(code);
      grants.delete(code);
      const isClient = clientId === client?.clientId && clientSecret === client.clientSecret;
      const isProven = createHash("sha256").update(verifier).digest("base64url") === grant?.challenge;
      const isRight = isClient && isProven && redirectUri === client.callbackUrl && grant.expiresAt > Date.now();
      return isRight ? grant.user : undefined;
    },
  };
}
