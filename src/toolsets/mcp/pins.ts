import { createHash } from "node:crypto";
import { canonicalJson } from "#domain/approval.ts";
import type { ToolDefinition } from "./connect-server.ts";
import type { ServerSettings } from "./server-settings.ts";

/** A server's tools as this process first saw them, by the server's own names. */
export type Pins = Map<string, ToolDefinition>;

const maxServers = 1_000;
const pinsByServer = new Map<string, Pins>();

/** The pins of a server, which are kept as long as the process runs. */
export function pinsOf(server: string, settings: ServerSettings): Pins {
  const key = createHash("sha256").update(canonicalJson({ server, settings })).digest("hex");
  const pins = pinsByServer.get(key) ?? new Map();
  pinsByServer.delete(key);
  pinsByServer.set(key, pins);
  const oldest = pinsByServer.keys().next().value;
  if (pinsByServer.size > maxServers && oldest !== undefined) pinsByServer.delete(oldest);
  return pins;
}

/** The sha256 of everything a model is told about a tool, as `sha256:…`. It changes if the server changes any of it. */
export function fingerprint(definition: ToolDefinition): string {
  const { name, title, description, inputSchema, outputSchema, annotations } = definition;
  const described = canonicalJson({ name, title, description, inputSchema, outputSchema, annotations });
  return `sha256:${createHash("sha256").update(described).digest("hex")}`;
}
