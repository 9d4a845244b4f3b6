import type { IncomingMessage } from "node:http";

/** Arguments that a person changes are the longest of what a form holds. */
const longestForm = 512 * 1024;

/** The fields of a form. Undefined for what is no form, or longer than one of ours. */
export async function readForm(request: IncomingMessage): Promise<URLSearchParams | undefined> {
  if (!/^application\/x-www-form-urlencoded\s*(;|$)/i.test(request.headers["content-type"] ?? "")) return undefined;
  if (Number(request.headers["content-length"] ?? 0) > longestForm) return undefined;
  const chunks: Buffer[] = [];
  let length = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    length += chunk.length;
    if (length > longestForm) return undefined;
    chunks.push(chunk);
  }
  return new URLSearchParams(Buffer.concat(chunks).toString("utf8"));
}
