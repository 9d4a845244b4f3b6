import { z } from "zod";
import { UserError } from "#domain/errors.ts";
import { isPublicAddress } from "#executors/public-address.ts";

/** A server that is a program, started for the run. */
const Program = z.strictObject({
  command: z.string().min(1),
  args: z.array(z.string()).default([]),
  /** Its environment, in addition to PATH. */
  env: z.record(z.string(), z.string()).default({}),
});

/** A server over HTTP. */
const Address = z.strictObject({
  url: z.url({ protocol: /^https?$/, error: "is the http or https address of an MCP server" }),
  headers: z.record(z.string(), z.string()).default({}),
});

export const ServerSettings = z.union([Program, Address], {
  error: "is { command, args, env } for a program, or { url, headers } for a server over HTTP",
});
export type ServerSettings = z.infer<typeof ServerSettings>;

const variable = /\$\{env:([A-Za-z_]\w*)\}/g;

/** Replaces `${env:NAME}` with the deployment's variables. Throws a UserError for a variable that is not set. */
export function withVariables(
  server: string,
  settings: ServerSettings,
  environment: NodeJS.ProcessEnv,
): ServerSettings {
  const fill = (text: string) =>
    text.replace(variable, (_, name: string) => {
      const value = environment[name];
      if (value === undefined)
        throw new UserError(`The MCP server ${server} needs the variable ${name}, which is not set.`);
      return value;
    });
  const fillAll = (values: Record<string, string>) =>
    Object.fromEntries(Object.entries(values).map(([key, value]) => [key, fill(value)]));

  if ("command" in settings) return { ...settings, args: settings.args.map(fill), env: fillAll(settings.env) };
  return { url: fill(settings.url), headers: fillAll(settings.headers) };
}

/** Throws a UserError for settings that would give a repository's worker access to the deployment's machine or network. */
export function checkForRepository(server: string, settings: ServerSettings, repository: string): void {
  const refuse = (what: string) => {
    throw new UserError(`The MCP server ${server} of a worker of ${repository} ${what}`);
  };
  if ("command" in settings) {
    refuse("is a program. Only the deployment's own workers may start programs; name the url of a server instead.");
    return;
  }
  if (JSON.stringify(settings).search(variable) !== -1) {
    refuse("uses variables of the deployment. Only the deployment's own workers may.");
  }
  const { protocol, hostname } = new URL(settings.url);
  const host = hostname.replace(/^\[|[\].]$/g, "");
  const isAddress = /^[\d.]+$/.test(host) || host.includes(":");
  if (protocol !== "https:") refuse("is not reached over https.");
  if (host === "localhost" || host.endsWith(".localhost") || (isAddress && !isPublicAddress(host))) {
    refuse("has a private address. Only the deployment's own workers may reach its network.");
  }
}

/** Thrown if a server's program ends before it answers. The message gives the reason. */
export class ProgramEndedError extends Error {
  override readonly name = "ProgramEndedError";
}
