import { type Context, Hono, type MiddlewareHandler } from "hono";
import { bodyLimit } from "hono/body-limit";
import { every } from "hono/combine";
import { UserError } from "#domain/errors.ts";
import { signInPath } from "./find-run.ts";
import { listPath } from "./list-runs.ts";
import { PageError, runNotFound } from "./page-error.ts";
import { sendMessage } from "./responses.ts";
import type { Session, Sessions } from "./sessions.ts";
import { callbackPath, type SignIn } from "./sign-in.ts";

export interface SignInRoutesOptions {
  /** The public URL of this app. */
  url: string;
  signIn: SignIn;
  sessions: Sessions;
  onError: (error: unknown) => void;
}

/** A form that a signed-in person submitted from one of our pages. */
export interface SubmittedForm {
  session: Session;
  fields: URLSearchParams;
}

export type FormVariables = { Variables: { form: SubmittedForm } };

const returnPath = /^\/runs(?:\/[a-z0-9-]{1,40}\/[0-9a-f]{32})?$/;

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
  routes.post(signOutPath, requireForm({ url, sessions }), (c) => {
    const page = c.var.form.fields.get("to") ?? "";
    sessions.end(c);
    const to = returnPath.test(page) ? page : listPath;
    const link =
      to === listPath ? { href: signInPath(to), text: "Sign in again" } : { href: to, text: "Back to the run" };
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
    if (!sessions.current(c)) {
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
    const session = sessions.current(c);
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
