import { createHash, randomBytes } from "node:crypto";
import type { IncomingMessage } from "node:http";
import { z } from "zod";
import { UserError } from "#domain/errors.ts";
import { isSameSecret } from "./is-same-secret.ts";
import type { SealedCookies } from "./sealed-cookies.ts";

export interface SignInOptions {
  /** Where browsers find this app. */
  url: string;
  /** Where GitHub is for browsers, and where its REST is. */
  github: { webUrl: string; apiUrl: string };
  client: { clientId: string; clientSecret: string };
  cookies: SealedCookies;
}

export interface SignIn {
  /** Where to send the browser, and the `Set-Cookie` header that remembers why. */
  begin(to: string): { location: string; cookie: string };
  /** Who came back from GitHub, and where they wanted to go. Throws a UserError for what was not begun here. */
  complete(
    request: IncomingMessage,
    query: URLSearchParams,
  ): Promise<{ login: string; id: number; to: string; cookie: string }>;
}

export const callbackPath = "/runs/-/signed-in";

/** GitHub keeps a code for ten minutes. */
const cookie = { name: "sign-in", lifeMs: 10 * 60_000 };
const patienceMs = 10_000;
/** Questions to GitHub at one time: whoever floods us must not flood it. */
const mostAtOnce = 8;

const Begun = z.object({ state: z.string(), verifier: z.string(), to: z.string() });
const Token = z.object({ access_token: z.string().min(1) });
const User = z.object({ login: z.string().min(1), id: z.number(), type: z.string() });

/** Signing in with GitHub, by the App's own OAuth client. The token is used once, to learn who it is, and given back. */
export function createSignIn({ url, github, client, cookies }: SignInOptions): SignIn {
  const redirectUri = `${url}${callbackPath}`;
  let underWay = 0;

  async function identify(code: string, verifier: string): Promise<{ login: string; id: number }> {
    const { access_token: token } = Token.parse(
      await ask(`${github.webUrl}/login/oauth/access_token`, {
        method: "POST",
        body: new URLSearchParams({
          client_id: client.clientId,
          client_secret: client.clientSecret,
          code,
          redirect_uri: redirectUri,
          code_verifier: verifier,
        }),
      }),
    );
    try {
      const { login, id, type } = User.parse(
        await ask(`${github.apiUrl}/user`, { headers: { authorization: `Bearer ${token}` } }),
      );
      if (type !== "User") throw new UserError("Only people sign in here.");
      return { login, id };
    } finally {
      await giveBack(token);
    }
  }

  /** Nobody needs the token any more; one that cannot be given back ends by itself. */
  async function giveBack(token: string): Promise<void> {
    const credentials = Buffer.from(`${client.clientId}:${client.clientSecret}`).toString("base64");
    await fetch(`${github.apiUrl}/applications/${encodeURIComponent(client.clientId)}/token`, {
      method: "DELETE",
      headers: { ...usualHeaders, authorization: `Basic ${credentials}`, "content-type": "application/json" },
      body: JSON.stringify({ access_token: token }),
      redirect: "error",
      signal: AbortSignal.timeout(patienceMs),
    }).catch(() => undefined);
  }

  async function complete(request: IncomingMessage, query: URLSearchParams) {
    const begun = cookies.open(request, cookie.name, Begun);
    if (!begun || !isSameSecret(query.get("state") ?? "", begun.state)) {
      throw new UserError("This was not begun here, or too long ago. Go back to the run and sign in again.");
    }
    const code = query.get("code");
    if (!code) throw new UserError("GitHub did not sign you in. Go back to the run and try again.");
    if (underWay >= mostAtOnce) throw new UserError("Too many sign in at once. Go back to the run and try again.");

    underWay += 1;
    try {
      const person = await identify(code, begun.verifier);
      return { ...person, to: begun.to, cookie: cookies.drop(cookie.name) };
    } catch (error) {
      if (error instanceof UserError) throw error;
      throw new UserError("GitHub did not say who you are. Go back to the run and try again.", { cause: error });
    } finally {
      underWay -= 1;
    }
  }

  return {
    begin: (to) => {
      const [state, verifier] = [randomBytes(24).toString("base64url"), randomBytes(48).toString("base64url")];
      const query = new URLSearchParams({
        client_id: client.clientId,
        redirect_uri: redirectUri,
        state,
        code_challenge: createHash("sha256").update(verifier).digest("base64url"),
        code_challenge_method: "S256",
      });
      return {
        location: `${github.webUrl}/login/oauth/authorize?${query}`,
        cookie: cookies.seal(cookie, { state, verifier, to }),
      };
    },
    complete,
  };
}

const usualHeaders = { accept: "application/json", "user-agent": "golem-forge" };

async function ask(url: string, init: RequestInit): Promise<unknown> {
  const response = await fetch(url, {
    ...init,
    headers: { ...usualHeaders, ...init.headers },
    redirect: "error",
    signal: AbortSignal.timeout(patienceMs),
  });
  if (!response.ok) throw new Error(`${new URL(url).pathname} answered ${response.status}`);
  return response.json();
}
