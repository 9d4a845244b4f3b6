import { createHmac, randomBytes } from "node:crypto";
import type { IncomingMessage } from "node:http";
import { z } from "zod";
import { isSameSecret } from "./is-same-secret.ts";
import type { SealedCookies } from "./sealed-cookies.ts";

const Session = z.object({ login: z.string(), id: z.number(), nonce: z.string() });

/** Who signed in with GitHub in this browser. What they may do is asked of GitHub each time. */
export type Session = z.infer<typeof Session>;

export interface Sessions {
  of(request: IncomingMessage): Session | undefined;
  /** Both give a `Set-Cookie` header. */
  begin(person: Pick<Session, "login" | "id">): string;
  end(): string;
  /** What the forms of this session carry, so that no other site can send them. */
  formKey(session: Session): string;
  isFormKey(session: Session, key: string): boolean;
}

const cookie = { name: "session", lifeMs: 2 * 60 * 60_000 };

export function createSessions(cookies: SealedCookies, key: Buffer): Sessions {
  const formKey = ({ nonce, id }: Session) => createHmac("sha256", key).update(`form ${id} ${nonce}`).digest("hex");
  return {
    of: (request) => cookies.open(request, cookie.name, Session),
    begin: ({ login, id }) => cookies.seal(cookie, { login, id, nonce: randomBytes(16).toString("hex") }),
    end: () => cookies.drop(cookie.name),
    formKey,
    isFormKey: (session, given) => isSameSecret(given, formKey(session)),
  };
}
