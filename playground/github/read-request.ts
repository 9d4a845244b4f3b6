import type { IncomingMessage } from "node:http";
import { ApiError } from "./rest/api-error.ts";

/** Reads the body. Throws a 413 above the limit in bytes. */
export async function readRequest(request: IncomingMessage, limit: number): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let size = 0;
  // Read to the end even above the limit: stopping early would break the connection before the response arrives.
  for await (const chunk of request) {
    size += chunk.length;
    if (size <= limit) chunks.push(chunk);
  }
  if (size > limit) throw new ApiError(413, "The request is too large");
  return Buffer.concat(chunks);
}

/** Reads the body as JSON; resolves to undefined if it is empty. Throws GitHub's 400 for invalid JSON. */
export async function readJsonBody(request: IncomingMessage): Promise<unknown> {
  const bytes = await readRequest(request, 1024 * 1024);
  if (bytes.length === 0) return undefined;
  try {
    return JSON.parse(bytes.toString("utf8"));
  } catch {
    throw new ApiError(400, "Problems parsing JSON");
  }
}
