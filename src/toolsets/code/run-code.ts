import { z } from "zod";
import { ToolError, UserError } from "#domain/errors.ts";
import { type Preview, textPreview } from "#domain/preview.ts";
import type { NamedTool, ToolContext } from "#domain/tool.ts";
import { matchesPattern } from "#text/path-pattern.ts";
import { commandResult, previewUsedChanges, runCommand } from "#toolsets/run-command.ts";
import type { ToolServices } from "#toolsets/toolset.ts";
import type { CodeConfig } from "./code-config.ts";

const inputSchema = z.object({
  language: z.enum(["python", "bash"]),
  code: z.string().min(1),
  args: z.array(z.string()).default([]).describe("Command-line arguments"),
  env: z.record(z.string(), z.string()).default({}).describe("Environment variables"),
  timeout: z.number().positive().optional().describe("Seconds; default 60"),
});
/** The input of a worker with allowed hosts. */
const networkSchema = inputSchema.extend({
  network: z
    .boolean()
    .default(false)
    .describe("Reach the worker's hosts over HTTPS, with `python3 -I`; needs approval"),
});
type Input = z.infer<typeof inputSchema> & Partial<z.infer<typeof networkSchema>>;

/** Linux limits a single argument to 128 KiB. */
const maxCodeBytes = 120_000;
const maxEnvironmentLength = 60_000;

export function createRunCodeTool(settings: CodeConfig, services: ToolServices): NamedTool<Input> {
  const allowed = allowedHosts(settings, services);
  // The network of a remote sandbox is its provider's.
  const hosts = settings.tier === "remote" ? [] : allowed;
  const network = hosts.length > 0 ? `with network to ${hosts.join(", ")} if approved` : "without network";
  const place = settings.tier === "remote" ? "its real programs" : `its real programs and ${network}`;
  return {
    name: "run_code",
    description: `Run Python or bash code in a sandbox over the repository, with ${place}. Changes to files are kept. Returns stdout, stderr, exit code and duration.`,
    inputSchema: hosts.length > 0 ? networkSchema : inputSchema,
    needsApproval: ({ network }) => network === true,
    afterCrash: ({ network }) => (network ? "report" : "repeat"),
    approvalReason: ({ network }) =>
      network
        ? `The worker wants to run code that reaches ${hosts.join(", ")}. It can send what it reads in the repository.`
        : "The worker wants to run code.",
    preview: (input) => previewCode(input, input.network ? hosts : [], services),
    execute: (input, context) => execute(input, context, settings, services),
  };
}

/** Returns the worker's hosts. Throws a UserError for a host that the deployment's policy does not allow. */
function allowedHosts({ network }: CodeConfig, { networkHosts = [] }: ToolServices): readonly string[] {
  const refused = network.find((host) => !networkHosts.some((pattern) => matchesPattern(pattern, host)));
  if (refused === undefined) return network;
  throw new UserError(
    `The policy of this deployment does not allow run_code to reach ${refused}. Allowed (network_hosts): ${networkHosts.join(", ") || "none"}.`,
  );
}

async function previewCode(
  { language, code, args, env }: Input,
  hosts: readonly string[],
  services: ToolServices,
): Promise<Preview> {
  const { sections, bindings } = await previewUsedChanges(services);
  const text = (title: string, content: string) => textPreview(content, title).sections;
  return {
    sections: [
      ...(hosts.length > 0 ? text("Hosts it can reach", hosts.join("\n")) : []),
      ...text(`Code in ${language}`, code),
      ...(args.length > 0 ? text("Arguments", JSON.stringify(args)) : []),
      ...(Object.keys(env).length > 0 ? text("Environment", JSON.stringify(env)) : []),
      ...sections,
    ],
    bindings,
  };
}

async function execute(
  { language, code, args, env, timeout, network }: Input,
  context: ToolContext,
  settings: CodeConfig,
  services: ToolServices,
) {
  check(code, env);
  const program =
    language === "python" ? ["python3", ...(network ? ["-I"] : []), "-c", code] : ["bash", "-c", code, "bash"];
  const ran = await runCommand(services, {
    settings,
    context,
    command: [...program, ...args],
    env,
    ...(network && { network: settings.network }),
    timeoutMs: Math.min(timeout ?? settings.timeout, settings.max_timeout) * 1_000,
  });
  return commandResult(ran, `${language} code`);
}

function check(code: string, env: Record<string, string>): void {
  if (Buffer.byteLength(code) > maxCodeBytes) {
    throw new ToolError("The code is too long to pass. Write it to a file and run that.", { code: "TOO_LARGE" });
  }
  const strange = Object.keys(env).find((name) => !/^[A-Za-z_][A-Za-z0-9_]*$/.test(name));
  if (strange !== undefined) {
    throw new ToolError(`"${strange}" is not a valid name for an environment variable.`, { code: "INVALID_ARGUMENTS" });
  }
  if (JSON.stringify(env).length > maxEnvironmentLength || Object.values(env).join("").includes("\0")) {
    throw new ToolError("The environment is too large, or has NUL characters.", { code: "INVALID_ARGUMENTS" });
  }
  if (code.includes("\0")) throw new ToolError("The code has NUL characters.", { code: "INVALID_ARGUMENTS" });
}
