import { createHash, randomBytes } from "node:crypto";
import { deleteToken, exchangeWebFlowCode } from "@octokit/oauth-methods";
import { type Context, Hono, type MiddlewareHandler } from "hono";
import { bodyLimit } from "hono/body-limit";
import { every } from "hono/combine";
import { z } from "zod";
import { createOctokit } from "#config/create-octokit.ts";
import { UserError } from "#domain/errors.ts";
import { equalSecrets } from "#text/equal-secrets.ts";
import { signInPath } from "./find-run.ts";
import { listPath } from "./list-runs.ts";
import { PageError, runNotFound, sendMessage } from "./responses.ts";
import type { CookieKind, SealedCookies, Session, Sessions } from "./sessions.ts";

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

export type SignIn = ReturnType<typeof createSignIn>;

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

/** Signs people in with the App's OAuth client. The token is used once, to read who they are, and then revoked. */
export function createSignIn({ url, github, client, cookies }: SignInOptions) {
  const redirectUrl = `${url}${callbackPath}`;
  let running = 0;

  const octokit = (auth?: string) =>
    createOctokit({
      auth,
      baseUrl: github.apiUrl,
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
      return { login: user.login, id: Number(user.id) };
    } finally {
      // Ignore errors: a token that cannot be revoked expires.
      await deleteToken({ clientType: "github-app", ...client, token, request: octokit().request }).catch(() => {});
    }
  }

  return {
    /** Stores the attempt in a cookie and returns GitHub's URL to redirect the browser to. */
    begin: (context: Context, returnTo: string): string => {
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
    /** Returns who signed in and where they wanted to go. Throws a UserError for an attempt that this app did not begin. */
    complete: async (context: Context): Promise<Person & { returnTo: string }> => {
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

interface SignInRoutesOptions {
  /** The public URL of this app. */
  url: string;
  signIn: SignIn;
  sessions: Sessions;
  onError: (error: unknown) => void;
}

export type FormVariables = { Variables: { form: { session: Session; fields: URLSearchParams } } };

/** The pages that a person can sign in from: a run, the list of runs, and the costs. */
const returnPath = /^\/(?:costs|runs(?:\/[a-z0-9-]{1,40}\/[0-9a-f]{32})?)$/;

export const signOutPath = "/runs/-/sign-out";

/** Creates the routes that start, complete and end sessions. */
export function createSignInRoutes({ url, signIn, sessions, onError }: SignInRoutesOptions): Hono {
  const routes = new Hono();
  routes.get("/runs/-/sign-in", (c) => {
    const returnTo = c.req.query("to") ?? "";
    if (!returnPath.test(returnTo)) throw runNotFound();
    return c.redirect(signIn.begin(c, returnTo), 303);
  });
  routes.get(callbackPath, async (c) => {
    try {
      const { login, id, returnTo } = await signIn.complete(c);
      sessions.begin(c, { login, id });
      return c.redirect(returnTo, 303);
    } catch (error) {
      if (!(error instanceof UserError)) throw error;
      if (error.cause) onError(error.cause);
      throw new PageError(400, error.message, { href: signInPath(listPath), text: "Sign in again" });
    }
  });
  routes.post(signOutPath, requireForm({ url, sessions }), async (c) => {
    const page = c.var.form.fields.get("to") ?? "";
    await sessions.end(c);
    const to = returnPath.test(page) ? page : listPath;
    const isRun = to.startsWith(`${listPath}/`);
    const link = isRun ? { href: to, text: "Back to the run" } : { href: signInPath(to), text: "Sign in again" };
    return sendMessage(c, { status: 200, message: "You're signed out.", link });
  });
  return routes;
}

/** Arguments that a person edits are the longest content of a form. */
const maxFormBytes = 512 * 1024;

/** Accepts only forms that the signed-in person submits from our pages. Reads the body after checking the session. */
export function requireForm({
  url,
  sessions,
}: Pick<SignInRoutesOptions, "url" | "sessions">): MiddlewareHandler<FormVariables> {
  const requireSession: MiddlewareHandler = async (c, next) => {
    if (!isSameOrigin(c.req.raw.headers, url))
      throw new PageError(403, "This form was not sent from one of our pages.");
    if (!(await sessions.current(c))) {
      throw new PageError(401, "Your session has expired. Sign in again.", {
        href: signInPath(pageOf(c)),
        text: "Sign in with GitHub",
      });
    }
    if (!/^application\/x-www-form-urlencoded\s*(;|$)/i.test(c.req.header("content-type") ?? "")) {
      throw new PageError(415, "Only forms are accepted here.");
    }
    await next();
  };
  const limitBody = bodyLimit({
    maxSize: maxFormBytes,
    onError: () => {
      throw new PageError(413, "The form is too long.");
    },
  });
  const readForm: MiddlewareHandler<FormVariables> = async (c, next) => {
    const session = await sessions.current(c);
    const fields = new URLSearchParams(await c.req.text());
    if (!session || !sessions.isFormKey(session, fields.get("form") ?? "")) {
      throw new PageError(403, "This form belongs to an earlier sign-in. Reload the run and try again.", {
        href: pageOf(c),
        text: "Reload",
      });
    }
    c.set("form", { session, fields });
    await next();
  };
  return every(requireSession, limitBody, readForm);
}

/** Returns the path of the page that a form was sent from. */
function pageOf({ req }: Context): string {
  return /^\/runs\/[a-z0-9-]{1,40}\/[0-9a-f]{32}(?=\/)/.exec(req.path)?.[0] ?? listPath;
}

/** Pages without a referrer send `Origin: null` with their forms. The browser must then confirm that the form is ours. */
function isSameOrigin(headers: Headers, url: string): boolean {
  const [origin, site] = [headers.get("origin"), headers.get("sec-fetch-site")];
  return origin === "null" ? site === "same-origin" : origin === url && (site ?? "same-origin") === "same-origin";
}
