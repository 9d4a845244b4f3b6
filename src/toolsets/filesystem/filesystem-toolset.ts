import { z } from "zod";
import { ApprovalDecisionType } from "#domain/approval.ts";
import type { Toolset } from "#toolsets/toolset.ts";
import { FilesystemToolset } from "./filesystem-tools.ts";

// One read may take this part of the context, so that a few of them fit beside the conversation, and never more than
// a result may have before the toolbox cuts it.
const shareOfContext = 0.2;
const mostTokens = 25_000;

const zoneApproval = z.strictObject({
  write: ApprovalDecisionType.optional(),
  delete: ApprovalDecisionType.optional(),
});

const config = z.strictObject({
  /** Approval by zone, as `{ output: { write: ask, delete: blocked } }`. */
  zoneApprovalConfig: z.record(z.string(), zoneApproval).optional(),
});

/** Reading and changing the files of the repository. */
export const filesystemToolset: Toolset<z.infer<typeof config>> = {
  name: "filesystem",
  config,
  create: ({ zoneApprovalConfig }, { workspace, sandbox, history, spec }) =>
    new FilesystemToolset({
      sandbox: workspace,
      zoneApprovalConfig,
      history,
      steps: sandbox,
      maxReadTokens: Math.min(mostTokens, Math.floor(spec.worker.max_context_tokens * shareOfContext)),
    }).getTools(),
};
