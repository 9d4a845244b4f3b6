import { z } from "zod";
import { ToolError } from "#domain/errors.ts";
import type { NamedTool, ToolContext } from "#domain/tool.ts";
import { commandResult, runCommand } from "#toolsets/run-command.ts";
import type { ToolServices } from "#toolsets/toolset.ts";
import type { CodeConfig } from "./code-config.ts";

const inputSchema = z.object({
  language: z.enum(["python", "bash"]),
  code: z.string().min(1),
  args: z.array(z.string()).default([]).describe("Command-line arguments"),
  env: z.record(z.string(), z.string()).default({}).describe("Environment variables"),
  timeout: z.number().positive().optional().describe("Seconds; default 60"),
});
type Input = z.infer<typeof inputSchema>;

/** One argument of a program may have 128 KiB. */
const maxCodeBytes = 120_000;
const maxEnvironmentLength = 60_000;

export function createRunCodeTool(settings: CodeConfig, services: ToolServices): NamedTool<Input> {
  return {
    name: "run_code",
    description:
      "Run Python or bash code in a sandbox over the repository, with its real programs and without network. Changes to files are kept. Returns stdout, stderr, exit code and duration.",
    inputSchema,
    needsApproval: false,
    execute: (input, context) => execute(input, context, settings, services),
  };
}

async function execute(
  { language, code, args, env, timeout }: Input,
  context: ToolContext,
  settings: CodeConfig,
  services: ToolServices,
) {
  check(code, env);
  const program = language === "python" ? ["python3", "-c", code] : ["bash", "-c", code, "bash"];
  const ran = await runCommand(services, {
    tier: settings.tier,
    request: {
      command: [...program, ...args],
      env,
      timeoutMs: Math.min(timeout ?? settings.timeout, settings.max_timeout) * 1_000,
      outputBytes: settings.output_bytes,
      signal: context.abortSignal,
      onOutput: (_, chunk) => context.output(chunk),
    },
    isApproved: () => false,
  });
  return commandResult(ran, `${language} code`);
}

function check(code: string, env: Record<string, string>): void {
  if (Buffer.byteLength(code) > maxCodeBytes) {
    throw new ToolError("The code is too long to hand over. Write it into a file and run that.", { code: "TOO_LARGE" });
  }
  const strange = Object.keys(env).find((name) => !/^[A-Za-z_][A-Za-z0-9_]*$/.test(name));
  if (strange !== undefined) {
    throw new ToolError(`"${strange}" is no name for an environment variable.`, { code: "INVALID_ARGUMENTS" });
  }
  if (JSON.stringify(env).length > maxEnvironmentLength || Object.values(env).join("").includes("\0")) {
    throw new ToolError("The environment is too large, or has NUL characters.", { code: "INVALID_ARGUMENTS" });
  }
  if (code.includes("\0")) throw new ToolError("The code has NUL characters.", { code: "INVALID_ARGUMENTS" });
}
