import { createHash, randomBytes } from "node:crypto";
import { deleteToken, exchangeWebFlowCode } from "@octokit/oauth-methods";
import { Octokit } from "@octokit/rest";
import type { Context } from "hono";
import { z } from "zod";
import { UserError } from "#domain/errors.ts";
import { equalSecrets } from "#text/equal-secrets.ts";
import type { CookieKind, SealedCookies } from "./sealed-cookies.ts";

export interface SignInOptions {
  /** The public URL of this app. */
  url: string;
  /** GitHub for browsers, and its REST API. */
  github: { webUrl: string; apiUrl: string };
  client: { clientId: string; clientSecret: string };
  cookies: SealedCookies;
}

interface Person {
  login: string;
  id: number;
}

export interface SignIn {
  /** Stores the attempt in a cookie and returns GitHub's URL to redirect the browser to. */
  begin(context: Context, returnTo: string): string;
  /** Returns who signed in and where they wanted to go. Throws a UserError for an attempt that this app did not begin. */
  complete(context: Context): Promise<Person & { returnTo: string }>;
}

export const callbackPath = "/runs/-/signed-in";

const timeoutMs = 10_000;
/** The maximum number of concurrent sign-ins, so that a flood of requests is not passed on to GitHub. */
const maxConcurrent = 8;

const Attempt = z.object({ state: z.string(), verifier: z.string(), to: z.string() });
/** GitHub's codes are valid for ten minutes. */
const attemptCookie: CookieKind<z.infer<typeof Attempt>> = {
  name: "sign-in",
  lifetimeMs: 10 * 60_000,
  schema: Attempt,
};

const silent = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };

/** Signs people in with the App's OAuth client. The token is used once, to read who they are, and then revoked. */
export function createSignIn({ url, github, client, cookies }: SignInOptions): SignIn {
  const redirectUrl = `${url}${callbackPath}`;
  let running = 0;

  const octokit = (auth?: string) =>
    new Octokit({
      baseUrl: github.apiUrl,
      userAgent: "golem-forge",
      log: silent,
      ...(auth !== undefined && { auth }),
      request: { redirect: "error", signal: AbortSignal.timeout(timeoutMs) },
    });

  async function identify(code: string, verifier: string): Promise<Person> {
    const { authentication } = await exchangeWebFlowCode({
      clientType: "github-app",
      ...client,
      code,
      redirectUrl,
      // PKCE, for which the library has no option.
      request: octokit().request.defaults({ code_verifier: verifier }),
    });
    const { token } = authentication;
    try {
      const { data: user } = await octokit(token).users.getAuthenticated();
      if (user.type !== "User") throw new UserError("Only user accounts can sign in.");
      return { login: user.login, id: user.id };
    } finally {
      // Ignore errors: a token that cannot be revoked expires.
      await deleteToken({ clientType: "github-app", ...client, token, request: octokit().request }).catch(() => {});
    }
  }

  return {
    begin: (context, returnTo) => {
      const [state, verifier] = [randomBytes(24).toString("base64url"), randomBytes(48).toString("base64url")];
      const query = new URLSearchParams({
        client_id: client.clientId,
        redirect_uri: redirectUrl,
        state,
        code_challenge: createHash("sha256").update(verifier).digest("base64url"),
        code_challenge_method: "S256",
      });
      cookies.set(context, attemptCookie, { state, verifier, to: returnTo });
      return `${github.webUrl}/login/oauth/authorize?${query}`;
    },
    complete: async (context) => {
      const attempt = cookies.get(context, attemptCookie);
      if (!attempt || !equalSecrets(context.req.query("state") ?? "", attempt.state)) {
        throw new UserError("This sign-in has expired or began in another browser. Open the run and sign in again.");
      }
      const code = context.req.query("code");
      if (!code) throw new UserError("GitHub did not sign you in. Open the run and try again.");
      if (running >= maxConcurrent) throw new UserError("Too many people are signing in. Try again in a moment.");

      running += 1;
      try {
        const person = await identify(code, attempt.verifier);
        cookies.delete(context, attemptCookie);
        return { ...person, returnTo: attempt.to };
      } catch (error) {
        if (error instanceof UserError) throw error;
        throw new UserError("GitHub did not confirm who you are. Open the run and sign in again.", { cause: error });
      } finally {
        running -= 1;
      }
    },
  };
}
