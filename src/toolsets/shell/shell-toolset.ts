import { z } from "zod";
import { ApprovalDecisionType } from "#domain/approval.ts";
import { BlockedError, ToolError } from "#domain/errors.ts";
import { textPreview } from "#domain/preview.ts";
import type { NamedTool, ToolContext } from "#domain/tool.ts";
import { quoted } from "#text/visible-text.ts";
import { isProtectedPath, namesPath } from "#toolsets/filesystem/file-changes.ts";
import {
  closeSessionWithTools,
  commandResult,
  mayReachNetwork,
  previewUsedChanges,
  runCommand,
} from "#toolsets/run-command.ts";
import type { ToolServices, Toolset } from "#toolsets/toolset.ts";
import { type CommandPolicy, inOtherFolder } from "./command-policy.ts";
import { reviewCommand } from "./review-command.ts";

const config = z.strictObject({
  /** `memory` works everywhere; `os` and `remote` run real programs where they are available. */
  tier: z.enum(["memory", "os", "remote"]).default("memory"),
  /** Seconds. */
  timeout: z.number().positive().default(5),
  max_timeout: z.number().positive().max(3_600).default(60),
  /** Bytes kept of stdout and of stderr. */
  output_bytes: z.number().int().min(200).max(1_000_000).default(30_000),
  /** By the first words of a command; the first that matches decides. */
  rules: z
    .array(z.strictObject({ pattern: z.string().trim().min(1), approval: ApprovalDecisionType.default("ask") }))
    .default([]),
  /** For commands that only read files of the repository. Default: preApproved, and blocked where `default` blocks. */
  reading: z.strictObject({ approval: ApprovalDecisionType }).optional(),
  /** For commands that no rule covers. */
  default: z.strictObject({ approval: ApprovalDecisionType.default("ask") }).prefault({}),
});
type Config = z.infer<typeof config>;

const inputSchemaOf = (settings: Config) =>
  z.object({
    command: z.string().min(1).describe("The shell command to run"),
    description: z.string().optional().describe("What it does, in 5 to 10 words"),
    working_dir: z.string().optional().describe("The folder to run in; default: the root of the repository"),
    timeout: z
      .number()
      .positive()
      .optional()
      .describe(`Seconds; default ${settings.timeout}, at most ${settings.max_timeout}`),
  });
type Input = z.infer<ReturnType<typeof inputSchemaOf>>;

const aboutTier = {
  memory:
    "A bash-like shell over the repository, in memory: coreutils, sed, awk, jq, rg, find and reading git; no network, no node, python or package managers.",
  os: "Real bash in a sandbox over the repository: the machine's programs, no network, no .git (read history with the git tools).",
  remote: "A shell in a remote sandbox over the repository.",
};

/** Runs shell commands on the run's files. */
export const shellToolset: Toolset<Config> = {
  name: "shell",
  aliases: ["bash"],
  config,
  create: (settings, services) => {
    if (settings.tier === "memory") closeSessionWithTools(services);
    return [createShellTool(settings, services)];
  },
};

function createShellTool(settings: Config, services: ToolServices): NamedTool<Input> {
  const policy = policyOf(settings);
  /** The reasons for asking, by command: `approvalReason` is synchronous. */
  const reasons = new Map<string, string>();

  /** Resolves to true if a person must approve. Throws if the command is blocked or would wait for keyboard input. */
  async function review({ command, working_dir: folder = "." }: Input): Promise<boolean> {
    const applied = folder === "." ? policy : inOtherFolder(policy);
    const { decision, reason, interactive } = await reviewCommand(command, applied);
    if (decision === "blocked") throw new BlockedError("shell", reason);
    if (interactive) throw new ToolError(interactive, { code: "INVALID_ARGUMENTS" });
    if (decision === "ask") reasons.set(command, reason);
    return decision === "ask";
  }

  async function execute(input: Input, context: ToolContext) {
    const { command, description, working_dir, timeout } = input;
    const isAsked = await review(input);
    const seconds = Math.min(timeout ?? settings.timeout, settings.max_timeout);
    const ran = await runCommand(services, {
      settings,
      context,
      command: ["bash", "-c", command],
      cwd: working_dir,
      timeoutMs: seconds * 1_000,
      // The approver saw only the command's text, so it must name any file that always requires approval.
      isApproved: (path) => isAsked && (!isProtectedPath(path) || namesPath(command, path)),
    });
    return commandResult(ran, description ?? command.split("\n")[0]?.slice(0, 80) ?? "command");
  }

  return {
    name: "shell",
    aliases: ["bash"],
    description: `Run a shell command. ${aboutTier[settings.tier]} Changes to files are kept; each call starts in the root of the repository with a fresh environment.`,
    inputSchema: inputSchemaOf(settings),
    needsApproval: review,
    approvalReason: ({ command, description }) => {
      const what = description ? ` (${quoted(description)})` : "";
      const reason = reasons.get(command);
      return `The worker wants to run a shell command${what}.${reason ? ` It needs approval because ${reason}.` : ""}`;
    },
    preview: async ({ command, working_dir }) => {
      const { sections } = textPreview(working_dir ? `cd ${working_dir}\n${command}` : command);
      if (!(await mayReachNetwork(services, settings.tier))) return { sections };
      const used = await previewUsedChanges(services);
      return { sections: [...sections, ...used.sections], bindings: used.bindings };
    },
    execute,
  };
}

function policyOf({ rules, reading, default: { approval: otherwise } }: Config): CommandPolicy {
  return { rules, reading: reading?.approval ?? (otherwise === "blocked" ? "blocked" : "preApproved"), otherwise };
}
