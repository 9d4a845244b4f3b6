import { createHmac } from "node:crypto";
import type { IncomingMessage } from "node:http";
import type { z } from "zod";
import { isSameSecret } from "./is-same-secret.ts";

interface Cookie {
  name: string;
  /** How long it holds, in milliseconds. */
  lifeMs: number;
}

/** Cookies that only this deployment can make, and that end by themselves. */
export interface SealedCookies {
  /** A `Set-Cookie` header that holds the value. */
  seal(cookie: Cookie, value: object): string;
  /** A `Set-Cookie` header that takes it away. */
  drop(name: string): string;
  /** The value; undefined for what is missing, too old, of another shape, or sealed by somebody else. */
  open<T>(request: IncomingMessage, name: string, shape: z.ZodType<T>): T | undefined;
}

export function createSealedCookies({
  key,
  secure,
  now,
}: {
  key: Buffer;
  /** Whether browsers come by https. */
  secure: boolean;
  now: () => number;
}): SealedCookies {
  const attributes = `Path=/; HttpOnly; SameSite=Lax${secure ? "; Secure" : ""}`;
  // Browsers take a cookie of this name from nobody but this very host, by https.
  const named = (name: string) => `${secure ? "__Host-" : ""}golem-forge-${name}`;
  const signatureOf = (name: string, payload: string) =>
    createHmac("sha256", key).update(`${name}.${payload}`).digest("base64url");

  return {
    seal: ({ name, lifeMs }, value) => {
      const payload = Buffer.from(JSON.stringify({ value, until: now() + lifeMs })).toString("base64url");
      return `${named(name)}=${payload}.${signatureOf(name, payload)}; Max-Age=${Math.floor(lifeMs / 1_000)}; ${attributes}`;
    },
    drop: (name) => `${named(name)}=; Max-Age=0; ${attributes}`,
    open: (request, name, shape) => {
      const [payload = "", signature = ""] = readCookie(request.headers.cookie ?? "", named(name)).split(".");
      if (!isSameSecret(signature, signatureOf(name, payload))) return undefined;

      const { value, until } = JSON.parse(Buffer.from(payload, "base64url").toString("utf8"));
      return until > now() ? shape.safeParse(value).data : undefined;
    },
  };
}

function readCookie(header: string, name: string): string {
  const found = header.split(";").find((pair) => pair.trimStart().startsWith(`${name}=`));
  return found?.trim().slice(name.length + 1) ?? "";
}
