import { createHmac } from "node:crypto";
import type { Context } from "hono";
import { deleteCookie, getCookie, setCookie } from "hono/cookie";
import type { z } from "zod";
import { equalSecrets } from "#text/equal-secrets.ts";

export interface CookieKind<T extends object> {
  name: string;
  lifetimeMs: number;
  schema: z.ZodType<T>;
}

/**
 * Cookies that only this deployment can create, and that expire on the server too. Hono's signed cookies sign the value alone;
 * these also sign the name, so that the cookie of one kind is never accepted as another.
 */
export interface SealedCookies {
  set<T extends object>(context: Context, kind: CookieKind<T>, value: T): void;
  delete(context: Context, kind: CookieKind<object>): void;
  /** Undefined if the cookie is missing, expired, of another kind, or was not sealed with this deployment's key. */
  get<T extends object>(context: Context, kind: CookieKind<T>): T | undefined;
  /** The content of a cookie that holds this value. */
  seal<T extends object>(kind: CookieKind<T>, value: T): string;
}

export interface SealedCookiesOptions {
  key: Buffer;
  /** True if browsers connect over HTTPS. Cookies are then bound to this host with the prefix `__Host-`. */
  secure: boolean;
  now: () => number;
}

export function createSealedCookies({ key, secure, now }: SealedCookiesOptions): SealedCookies {
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

  function seal<T extends object>({ name, lifetimeMs }: CookieKind<T>, value: T): string {
    const payload = Buffer.from(JSON.stringify({ value, until: now() + lifetimeMs })).toString("base64url");
    return `${payload}.${sign(name, payload)}`;
  }

  return {
    seal,
    set: (context, kind, value) =>
      setCookie(context, cookieName(kind.name), seal(kind, value), {
        ...attributes,
        maxAge: Math.floor(kind.lifetimeMs / 1_000),
      }),
    delete: (context, { name }) => {
      deleteCookie(context, cookieName(name), attributes);
    },
    get: (context, { name, schema }) => {
      const sealed = getCookie(context, cookieName(name), secure ? "host" : undefined) ?? "";
      const [payload = "", signature = ""] = sealed.split(".");
      if (!equalSecrets(signature, sign(name, payload))) return undefined;

      const { value, until } = JSON.parse(Buffer.from(payload, "base64url").toString("utf8"));
      return until > now() ? schema.safeParse(value).data : undefined;
    },
  };
}
