import { createHash } from "node:crypto";
import { canonicalJson } from "#domain/approval.ts";
import type { ToolDefinition } from "./connect-server.ts";
import type { ServerSettings } from "./server-settings.ts";

/** What a server's tools were when this process first saw them, by their own names. */
export type Pins = Map<string, ToolDefinition>;

const mostServers = 1_000;
const seen = new Map<string, Pins>();

/** The pins of a server, kept as long as the process lives. */
export function pinsOf(server: string, settings: ServerSettings): Pins {
  const key = createHash("sha256").update(canonicalJson({ server, settings })).digest("hex");
  const pins = seen.get(key) ?? new Map();
  seen.delete(key);
  seen.set(key, pins);
  const oldest = seen.keys().next().value;
  if (seen.size > mostServers && oldest !== undefined) seen.delete(oldest);
  return pins;
}

/** `sha256:…` of all that a model is told of a tool: another one when the server changes any of it. */
export function fingerprint({
  name,
  title,
  description,
  inputSchema,
  outputSchema,
  annotations,
}: ToolDefinition): string {
  const told = canonicalJson({ name, title, description, inputSchema, outputSchema, annotations });
  return `sha256:${createHash("sha256").update(told).digest("hex")}`;
}
