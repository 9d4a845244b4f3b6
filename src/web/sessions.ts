import { createHash, createHmac, randomBytes } from "node:crypto";
import type { Context } from "hono";
import { deleteCookie, getCookie, setCookie } from "hono/cookie";
import { z } from "zod";
import { createBoundedCache } from "#domain/bounded-cache.ts";
import type { Runs } from "#runtime/runs.ts";
import { equalSecrets } from "#text/equal-secrets.ts";

/** A person who signed in with GitHub in this browser. GitHub is asked for their permission on each request. */
export const Session = z.object({ login: z.string(), id: z.number(), nonce: z.string() });
export type Session = z.infer<typeof Session>;

export type Sessions = ReturnType<typeof createSessions>;

export const sessionCookie: CookieKind<Session> = { name: "session", lifetimeMs: 2 * 60 * 60_000, schema: Session };

const maxKnownSessions = 10_000;
/** A session that another process has ended counts for at most this long. */
const recheckMs = 3_000;

interface SessionsOptions {
  cookies: SealedCookies;
  key: Buffer;
  /** Records the sessions that were ended, for all processes and for longer than a session lasts. */
  keys: () => Pick<Runs, "hasRecorded" | "recordKey">;
  now: () => number;
}

export function createSessions({ cookies, key, keys, now }: SessionsOptions) {
  const formKey = ({ nonce, id }: Session) => createHmac("sha256", key).update(`form ${id} ${nonce}`).digest("hex");
  const recordedKey = (session: Session) =>
    `ended session ${createHash("sha256").update(formKey(session)).digest("hex")}`;
  /** The sessions that were looked up, or ended here, and when. */
  const known = createBoundedCache<string, { isEnded: boolean; at: number }>(maxKnownSessions);
  const isEnded = async (recorded: string) => {
    const cached = known.get(recorded);
    if (cached?.isEnded) return true;
    // Negative after the clock was set back.
    const age = cached ? now() - cached.at : recheckMs;
    if (age >= 0 && age < recheckMs) return false;
    // The session may have been ended here meanwhile.
    const found = (await keys().hasRecorded(recorded)) || known.get(recorded)?.isEnded === true;
    known.set(recorded, { isEnded: found, at: now() });
    return found;
  };
  return {
    /** Resolves to undefined without a session, and for a copy of the cookie soon after the person signed out. */
    current: async (context: Context): Promise<Session | undefined> => {
      const session = cookies.get(context, sessionCookie);
      return session && !(await isEnded(recordedKey(session))) ? session : undefined;
    },
    begin: (context: Context, { login, id }: Pick<Session, "login" | "id">): void =>
      cookies.set(context, sessionCookie, { login, id, nonce: randomBytes(16).toString("hex") }),
    end: async (context: Context): Promise<void> => {
      const session = cookies.get(context, sessionCookie);
      if (session) {
        await keys().recordKey(recordedKey(session));
        known.set(recordedKey(session), { isEnded: true, at: now() });
      }
      cookies.delete(context, sessionCookie);
    },
    /** The key that every form of this session carries, so that no other site can submit one (CSRF protection). */
    formKey,
    isFormKey: (session: Session, given: string) => equalSecrets(given, formKey(session)),
  };
}

export interface CookieKind<T extends object> {
  name: string;
  lifetimeMs: number;
  schema: z.ZodType<T>;
}

/**
 * Cookies that only this deployment can create, and that expire on the server too. Hono's signed cookies sign the value alone;
 * these also sign the name, so that the cookie of one kind is never accepted as another.
 */
export type SealedCookies = ReturnType<typeof createSealedCookies>;

interface SealedCookiesOptions {
  key: Buffer;
  /** True if browsers connect over HTTPS. Cookies are then bound to this host with the prefix `__Host-`. */
  secure: boolean;
  now: () => number;
}

export function createSealedCookies({ key, secure, now }: SealedCookiesOptions) {
  const attributes = {
    path: "/",
    httpOnly: true,
    sameSite: "Lax",
    secure,
    ...(secure && { prefix: "host" as const }),
  } as const;
  const cookieName = (name: string) => `golem-forge-${name}`;
  const sign = (name: string, payload: string) =>
    createHmac("sha256", key).update(`${name}.${payload}`).digest("base64url");

  /** The content of a cookie that holds this value. */
  function seal<T extends object>({ name, lifetimeMs }: CookieKind<T>, value: T): string {
    const payload = Buffer.from(JSON.stringify({ value, until: now() + lifetimeMs })).toString("base64url");
    return `${payload}.${sign(name, payload)}`;
  }

  return {
    seal,
    set: <T extends object>(context: Context, kind: CookieKind<T>, value: T): void =>
      setCookie(context, cookieName(kind.name), seal(kind, value), {
        ...attributes,
        maxAge: Math.floor(kind.lifetimeMs / 1_000),
      }),
    delete: (context: Context, { name }: CookieKind<object>): void => {
      deleteCookie(context, cookieName(name), attributes);
    },
    /** Undefined if the cookie is missing, expired, of another kind, or was not sealed with this deployment's key. */
    get: <T extends object>(context: Context, { name, schema }: CookieKind<T>): T | undefined => {
      const sealed = getCookie(context, cookieName(name), secure ? "host" : undefined) ?? "";
      const [payload = "", signature = ""] = sealed.split(".");
      if (!equalSecrets(signature, sign(name, payload))) return undefined;

      const { value, until } = JSON.parse(Buffer.from(payload, "base64url").toString("utf8"));
      return until > now() ? schema.safeParse(value).data : undefined;
    },
  };
}
