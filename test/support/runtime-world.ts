import { afterEach } from "vitest";
import { DeploymentPolicy } from "#config/deployment-policy.ts";
import type { Approval } from "#domain/approval.ts";
import type { Permission } from "#domain/github.ts";
import type { RunView } from "#domain/run.ts";
import { createModels } from "#models/create-models.ts";
import { type ModelReply, startModelServer } from "#playground/model/model-server.ts";
import { createRuntime } from "#runtime/create-runtime.ts";
import type { FrontEnd, PostOptions, ToolReply } from "#runtime/front-end.ts";
import { openWorkerCatalog } from "#runtime/start/worker-catalog.ts";
import { openSqliteStore } from "#runtime/store/sqlite/open-sqlite-store.ts";
import type { Store } from "#runtime/store/store.ts";
import { previewText } from "#ui/request-blocks.ts";
import { GitHubWorld, sums } from "./github-world.ts";

export interface RuntimeWorldOptions {
  /** The model's replies, by turn and worker. */
  script: Parameters<typeof startModelServer>[0]["script"];
  github?: {
    issue?: { title?: string; body?: string; by?: string };
    private?: boolean;
    permissions?: Record<string, Permission>;
    /** Files in addition to those of octo/sums, such as `.github/workers/tester.worker`. */
    files?: Record<string, string>;
  };
  store?: Store;
  approvalMs?: number;
  runsPerHour?: { person: number; repository: number };
  policy?: object;
  /** The address of Anthropic, for a worker that names one of its models. */
  anthropicUrl?: string;
}

/** Everything that the front end was shown, in order. */
export interface Shown {
  kind: "status" | "approval" | "question" | "outcome" | "tool";
  view: RunView;
  options: PostOptions;
  approval?: Approval;
  reply?: ToolReply;
  text?: string;
}

export const origin = {
  installationId: 1,
  owner: "octo",
  repo: "sums",
  thread: 7,
  isPullRequest: false,
  requestedBy: "ada",
};

/** The workers that ship, which do not change. */
const catalog = openWorkerCatalog(new URL("../../workers", import.meta.url).pathname);

/** The runtime over a real store, with the playground's GitHub and model server. */
async function runtimeWorld(options: RuntimeWorldOptions) {
  const { issue, permissions, files } = options.github ?? {};
  const github = await GitHubWorld.start({
    repository: {
      ...sums,
      private: options.github?.private ?? false,
      permissions: { ...sums.permissions, ...permissions },
      commits: (sums.commits ?? []).map((commit) => ({ ...commit, files: { ...commit.files, ...files } })),
    },
  });
  github.openIssue(7, { title: "Totals are off by one", body: "sum([1, 2]) gives 2.", by: "visitor", ...issue });
  const model = await startModelServer({ script: options.script });
  const store = options.store ?? (await openSqliteStore(":memory:"));
  const shown: Shown[] = [];
  const watchers = new Set<() => void>();
  const errors: unknown[] = [];

  const frontEnd = recordingFrontEnd(shown, () => {
    for (const watcher of watchers) watcher();
  });
  const runtime = createRuntime({
    store,
    models: createModels({
      default: "compatible:scripted",
      anthropic: { apiKey: options.anthropicUrl && "a key", baseUrl: options.anthropicUrl },
      openai: { apiKey: undefined, baseUrl: undefined },
      google: { apiKey: undefined },
      compatible: { apiKey: undefined, baseUrl: model.url },
    }),
    catalog: await catalog,
    openGitHub: github.openGitHub,
    frontEnd,
    services: { sanitize: (text) => text },
    approvalMs: options.approvalMs ?? 60_000,
    statusIntervalMs: 0,
    runsPerHour: options.runsPerHour ?? { person: 20, repository: 100 },
    policy: DeploymentPolicy.parse(options.policy ?? {}),
    onError: (error) => errors.push(error),
  });
  await runtime.start();

  /** Waits until the calls of the front end match. */
  async function waitUntilShown(fits: (shown: Shown) => boolean): Promise<Shown> {
    for (;;) {
      const found = shown.find(fits);
      if (found) return found;
      const { promise, resolve } = Promise.withResolvers<void>();
      watchers.add(resolve);
      await promise;
      watchers.delete(resolve);
    }
  }

  return {
    github,
    runtime,
    runs: runtime.runs,
    store,
    model,
    shown,
    frontEnd,
    errors,
    waitUntilShown,
    /** Resolves to the first pending approval that is not in `known`. */
    async approvalRequested(known: readonly string[] = []): Promise<Approval> {
      const isNew = (approval: Approval | undefined): approval is Approval =>
        approval?.status === "pending" && !known.includes(approval.id);
      const { approval } = await waitUntilShown((shown) => isNew(shown.approval));
      if (!approval) throw new Error("unreachable: it was just seen");
      return approval;
    },
    /** Resolves to the answer to the n-th tool command, counted from 0. */
    async toolReply(nth = 0): Promise<ToolReply> {
      const answered = () => shown.filter((one) => one.kind === "tool");
      await waitUntilShown(() => answered().length > nth);
      const reply = answered()[nth]?.reply;
      if (!reply) throw new Error("unreachable: it was just seen");
      return reply;
    },
    ended: async () => (await waitUntilShown(({ kind }) => kind === "outcome")).view,
    close: async () => {
      await runtime.shutDown(5_000);
      await store.close();
      await model.close();
      await github.close();
    },
  };
}

function recordingFrontEnd(shown: Shown[], notify: () => void): FrontEnd {
  let comments = 0;
  const record = async (entry: Shown): Promise<number> => {
    shown.push(entry);
    notify();
    comments += 1;
    return entry.options.commentId ?? comments;
  };
  const recordRequest = async (entry: Shown) => [{ id: await record(entry), digest: "", updatedAt: 0 }];
  return {
    canShow: ({ preview }) => (previewText(preview)?.length ?? 0) < 20_000,
    showStatus: (view, options) => record({ kind: "status", view, options }),
    showApproval: (view, approval, options) => recordRequest({ kind: "approval", view, approval, options }),
    askQuestion: (view, { text }, options) => record({ kind: "question", view, text, options }),
    showToolReply: (view, reply, options) => recordRequest({ kind: "tool", view, reply, options }),
    showAnswer: (view, text, options) =>
      record({ kind: "outcome", view: { ...view, outcome: { kind: "answered", text } }, options }),
    showOutcome: (view, options) => record({ kind: "outcome", view, options }),
  };
}

/** Returns a function that creates worlds, each closed after its test. */
export function runtimeWorlds(): (options: RuntimeWorldOptions) => ReturnType<typeof runtimeWorld> {
  const open: Awaited<ReturnType<typeof runtimeWorld>>[] = [];
  afterEach(async () => {
    await Promise.all(open.splice(0).map((made) => made.close()));
  });
  return async (options) => {
    const made = await runtimeWorld(options);
    open.push(made);
    return made;
  };
}

/** A script of fixed replies, one per turn. */
export function turns(...replies: ModelReply[]): RuntimeWorldOptions["script"] {
  return ({ messages }) => replies[messages.filter(({ role }) => role === "assistant").length] ?? { text: "Done." };
}
