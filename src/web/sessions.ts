import { createHmac, randomBytes } from "node:crypto";
import type { Context } from "hono";
import { z } from "zod";
import { equalSecrets } from "#text/equal-secrets.ts";
import type { CookieKind, SealedCookies } from "./sealed-cookies.ts";

/** A person who signed in with GitHub in this browser. GitHub is asked for their permission on each request. */
export const Session = z.object({ login: z.string(), id: z.number(), nonce: z.string() });
export type Session = z.infer<typeof Session>;

export interface Sessions {
  current(context: Context): Session | undefined;
  begin(context: Context, person: Pick<Session, "login" | "id">): void;
  end(context: Context): void;
  /** The key that every form of this session carries, so that no other site can submit one (CSRF protection). */
  formKey(session: Session): string;
  isFormKey(session: Session, key: string): boolean;
}

export const sessionCookie: CookieKind<Session> = { name: "session", lifetimeMs: 2 * 60 * 60_000, schema: Session };

export function createSessions(cookies: SealedCookies, key: Buffer): Sessions {
  const formKey = ({ nonce, id }: Session) => createHmac("sha256", key).update(`form ${id} ${nonce}`).digest("hex");
  return {
    current: (context) => cookies.get(context, sessionCookie),
    begin: (context, { login, id }) =>
      cookies.set(context, sessionCookie, { login, id, nonce: randomBytes(16).toString("hex") }),
    end: (context) => cookies.delete(context, sessionCookie),
    formKey,
    isFormKey: (session, given) => equalSecrets(given, formKey(session)),
  };
}
