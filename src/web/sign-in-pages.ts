import type { IncomingMessage, ServerResponse } from "node:http";
import { UserError } from "#domain/errors.ts";
import { readForm } from "./read-form.ts";
import { notThere, Refusal } from "./refusal.ts";
import { allow, redirect, sendSentence } from "./respond.ts";
import type { Session, Sessions } from "./sessions.ts";
import type { SignIn } from "./sign-in.ts";

export interface SignInPagesOptions {
  /** Where browsers find this app. */
  url: string;
  signIn: SignIn;
  sessions: Sessions;
  onError: (error: unknown) => void;
}

/** What a person who signed in sent by a form of ours. */
export interface Sent {
  session: Session;
  fields: URLSearchParams;
}

export interface SignInPages {
  begin(request: IncomingMessage, response: ServerResponse, query: URLSearchParams): void;
  complete(request: IncomingMessage, response: ServerResponse, query: URLSearchParams): Promise<void>;
  end(request: IncomingMessage, response: ServerResponse): Promise<void>;
  /** Throws a Refusal for what no page of ours sent, and for who is not signed in, before it reads the rest. */
  readSent(request: IncomingMessage): Promise<Sent>;
}

const pagePath = /^\/runs\/[a-z0-9-]{1,40}\/[0-9a-f]{32}$/;

/** The way to GitHub and back, and the forms of those who took it. */
export function createSignInPages({ url, signIn, sessions, onError }: SignInPagesOptions): SignInPages {
  async function readSent(request: IncomingMessage): Promise<Sent> {
    if (!isOurs(request, url)) throw new Refusal(403, "This was not sent by a page of ours.");
    const session = sessions.of(request);
    if (!session) throw new Refusal(401, "You are not signed in any more. Open the run again and sign in.");
    const fields = await readForm(request);
    if (fields === undefined) throw new Refusal(413, "That is not, or is more than, what a form of ours sends.");
    if (!sessions.isFormKey(session, fields.get("form") ?? "")) {
      throw new Refusal(403, "This form is of another sign-in. Open the run again.");
    }
    return { session, fields };
  }

  return {
    begin: (request, response, query) => {
      allow(request, "GET");
      const to = query.get("to") ?? "";
      if (!pagePath.test(to)) throw notThere();
      const { location, cookie } = signIn.begin(to);
      response.setHeader("set-cookie", cookie);
      redirect(response, location);
    },
    complete: async (request, response, query) => {
      allow(request, "GET");
      try {
        const { login, id, to, cookie } = await signIn.complete(request, query);
        response.setHeader("set-cookie", [sessions.begin({ login, id }), cookie]);
        redirect(response, to);
      } catch (error) {
        if (!(error instanceof UserError)) throw error;
        if (error.cause) onError(error.cause);
        throw new Refusal(400, error.message);
      }
    },
    end: async (request, response) => {
      allow(request, "POST");
      await readSent(request);
      response.setHeader("set-cookie", sessions.end());
      sendSentence(request, response, { status: 200, words: "You are signed out here." });
    },
    readSent,
  };
}

/** A page that sends no referrer sends no origin with its forms either; then the browser must say that it is ours. */
function isOurs({ headers }: IncomingMessage, url: string): boolean {
  const site = headers["sec-fetch-site"];
  return headers.origin === "null"
    ? site === "same-origin"
    : headers.origin === url && (site ?? "same-origin") === "same-origin";
}
