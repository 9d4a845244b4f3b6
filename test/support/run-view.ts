import type { Approval } from "#domain/approval.ts";
import type { Preview } from "#domain/preview.ts";
import type { RunView } from "#domain/run.ts";
import { WorkerDefinition } from "#domain/worker.ts";

/** Creates a working root run of `fixer` on octo/shop#1. */
export function sampleView(change: Partial<RunView> = {}): RunView {
  const worker = WorkerDefinition.parse({ name: "fixer", instructions: "Fix it." });
  return {
    spec: {
      id: "run1",
      rootId: "run1",
      depth: 0,
      workerPath: "fixer",
      worker,
      workerSource: "deployment",
      model: "anthropic:claude-sonnet-4-5",
      origin: {
        installationId: 1,
        owner: "octo",
        repo: "shop",
        thread: 1,
        isPullRequest: false,
        commentId: 50,
        requestedBy: "ada",
      },
      createdAt: Date.UTC(2026, 4, 1),
    } as RunView["spec"],
    state: "callingModel",
    activity: "Thinking.",
    tasks: [],
    steps: 3,
    usage: { inputTokens: 12_345, outputTokens: 678 },
    tokens: 13_023,
    cost: 0.1234,
    openCalls: [],
    log: ["Opened main at abc1234", "read_file: 12 lines"],
    children: [],
    startedAt: Date.UTC(2026, 4, 1),
    updatedAt: Date.UTC(2026, 4, 1),
    ...change,
  };
}

/** Creates the preview of a change to `sum.js` with this diff. */
export function samplePreview(diff: string): Preview {
  const change = {
    path: "sum.js",
    kind: "modified" as const,
    oldMode: "100644" as const,
    newMode: "100644" as const,
    oldBlob: "1".repeat(40),
    newBlob: "2".repeat(40),
    size: 5,
  };
  return { sections: [{ kind: "file", change, diff }] };
}

/** Creates a pending request of `fixer` to open a pull request. */
export function sampleApproval(change: Partial<Approval> = {}): Approval {
  return {
    id: "k7mq",
    runId: "run1",
    rootId: "run1",
    workerPath: "fixer",
    callId: "call1",
    tool: "open_pull_request",
    args: { title: "Fix the sum", body: "It added twice." },
    baseCommit: "a".repeat(40),
    digest: "0123456789abcdef".repeat(4),
    reason: "fixer wants to open a pull request.",
    preview: samplePreview("@@ -1 +1 @@\n-a + a\n+a + b"),
    status: "pending",
    requestedAt: Date.UTC(2026, 4, 1, 10),
    expiresAt: Date.UTC(2026, 4, 4, 10),
    ...change,
  };
}
