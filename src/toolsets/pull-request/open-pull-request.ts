import { z } from "zod";
import type { ApprovalConfig } from "#domain/approval.ts";
import { ToolError } from "#domain/errors.ts";
import { type GitHub, GitHubRefusal, type PullRequest } from "#domain/github.ts";
import type { ToolResult } from "#domain/result.ts";
import type { NamedTool } from "#domain/tool.ts";
import { withRetries } from "#domain/with-retries.ts";
import { configuredApproval } from "#toolsets/approval-settings.ts";
import type { ToolServices } from "#toolsets/toolset.ts";
import { previewPush, pushesProtectedFile } from "./outgoing-changes.ts";
import { pushChanges } from "./push-changes.ts";

const input = z.object({
  title: z.string().trim().min(1).max(250).describe("What the change does, as one line"),
  body: z.string().max(60_000).default("").describe("What was changed and why, for the reviewer; Markdown"),
  closes_issue: z.boolean().optional().describe("Close the issue of this thread when the pull request is merged"),
});
type Input = z.infer<typeof input>;

const tool = "open_pull_request";

/** Proposes the run's changes as a draft pull request from its own branch. Asks, and shows the whole diff. */
export function createOpenPullRequestTool(
  services: ToolServices,
  approval?: ApprovalConfig,
): NamedTool<Input, ToolResult> {
  const { sandbox, github, branch } = services;
  const configured = configuredApproval(tool, approval);
  return {
    name: tool,
    description:
      "Commit everything this run has changed to its own branch and open a draft pull request. Check git_diff first.",
    inputSchema: input,
    needsApproval: async () => {
      return configured() || pushesProtectedFile(sandbox);
    },
    approvalReason: ({ title }) => `The worker wants to open a draft pull request: ${title}`,
    preview: async (args) => {
      const { title, body } = texts(args, services);
      return previewPush(sandbox, { Title: title, Description: body });
    },
    execute: async (args, context) => {
      const { title, body } = texts(args, services);
      const existing = await github.findPullRequest(branch);
      if (existing?.state === "closed") throw closedByPeople(existing);

      const pushed = await pushChanges({ services, context, message: `${title}\n\n${services.sanitize(args.body)}` });
      try {
        const pull = existing
          ? await withTexts(existing, { title, body }, services)
          : await withRetries(
              () => create(github, { head: branch, base: sandbox.base.branch, title, body, draft: true }),
              { signal: context.abortSignal },
            );
        // The same work found in place was left there by this very call, cut short before it could say so.
        const isNew = !existing || (pull === existing && existing.head.commit === pushed.commit);
        return resultOf(pull, { pushed, done: isNew ? "Opened" : "Updated" });
      } catch (error) {
        throw new ToolError(
          `The branch ${branch} is pushed, but GitHub did not open the pull request: ${reason(error)}`,
          {
            code: "UNAVAILABLE",
            suggestion: "Call open_pull_request again; what is pushed stays.",
            details: { pushed },
            cause: error,
          },
        );
      }
    },
  };
}

async function create(github: GitHub, pull: Parameters<GitHub["createPullRequest"]>[0]): Promise<PullRequest> {
  try {
    return await github.createPullRequest(pull);
  } catch (error) {
    if (error instanceof GitHubRefusal && error.status === 422) {
      // The default branch was given another name while the run waited.
      const { defaultBranch } = await github.getRepository();
      if (defaultBranch !== pull.base) return create(github, { ...pull, base: defaultBranch });
    }
    // The answer is lost, not always the pull request: a branch has only one.
    const standing = await github.findPullRequest(pull.head).catch(() => undefined);
    if (standing?.state === "open") return standing;
    throw error;
  }
}

/** Title and body as they leave: cleaned, with the run's own issue named by us and nobody else. */
export function texts({ title, body, closes_issue }: Input, { spec, sanitize }: ToolServices) {
  const { thread, isPullRequest } = spec.origin;
  const link = closes_issue && !isPullRequest ? `Closes #${thread}` : `For #${thread}`;
  return {
    title: toSingleLine(sanitize(title)),
    body: `${sanitize(body).trim()}\n\n---\n${link}. Proposed by the worker \`${spec.worker.name}\`.`.trimStart(),
  };
}

export function toSingleLine(text: string): string {
  return text.replace(/\s+/g, " ").trim();
}

/** Brings the texts of a pull request to what they should be; nothing is sent when they are. */
export async function withTexts(
  pull: PullRequest,
  change: { title?: string; body?: string },
  { github }: ToolServices,
): Promise<PullRequest> {
  const { title = pull.title, body = pull.body } = change;
  if (title === pull.title && body === pull.body) return pull;
  return github.updatePullRequest(pull.number, change);
}

export function closedByPeople({ number, merged }: PullRequest): ToolError {
  return new ToolError(`Pull request #${number} of this run was ${merged ? "merged" : "closed"} already.`, {
    code: "CONFLICT",
    suggestion: "Do not open another; say what is left to do and stop.",
  });
}

export function resultOf(pull: PullRequest, { pushed, done }: { pushed: unknown; done: string }): ToolResult {
  const { number, url, title, draft } = pull;
  const summary = `${done} ${draft ? "draft " : ""}pull request #${number}`;
  return {
    llmContent: `${summary}: ${title}\n${url}`,
    value: { kind: "pull_request", data: { number, url, title, draft, pushed }, summary: `${summary}: ${url}` },
  };
}

function reason(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
