import { subscribedEvents } from "#bot/deliveries/handlers.ts";
import type { NewRepository } from "#playground/github/create-world.ts";
import type { SnapshotComment, SnapshotThread } from "#playground/github/snapshot.ts";
import { type ModelServerOptions, startModelServer } from "#playground/model/model-server.ts";
import { type ActionWorkflowOptions, actionWorkflowPath, renderActionWorkflow } from "#setup/action-workflow.ts";
import { ActionRunner, type ActionRunnerOptions } from "./action-runner.ts";
import { forgeRepository } from "./forge-world.ts";
import { TestGitHub } from "./test-github.ts";

export interface ActionWorldOptions extends Pick<ActionRunnerOptions, "environment" | "parallel"> {
  script: ModelServerOptions["script"];
  repository?: Partial<NewRepository>;
  /** The code that jobs run. Default: the npm package. */
  from?: ActionWorkflowOptions["from"];
  /** How long to wait for a change in a thread. Default: two minutes. */
  timeoutMs?: number;
}

export const actionRepository = "playground/shop";

/** Starts a repository whose GitHub Action workflow runs jobs as GitHub does, without a server. */
export async function startActionWorld({
  script,
  repository,
  from = { version: "0.1.0" },
  timeoutMs = 120_000,
  ...options
}: ActionWorldOptions) {
  const model = await startModelServer({ script });
  const [commit] = forgeRepository.commits;
  const workflow = renderActionWorkflow({ workflows: ["CI"], model: "openai:scripted", from });
  const files = { ...commit?.files, [actionWorkflowPath]: workflow };
  const commits = commit ? [{ ...commit, files }] : [];
  const github = await TestGitHub.start({
    app: { slug: "github-actions", events: [...subscribedEvents] },
    repositories: [{ ...forgeRepository, commits, ...repository }],
  });
  const runner = await ActionRunner.start({
    golem: process.env.GOLEM_FORGE_TEST_GOLEM,
    ...options,
    github,
    secrets: { OPENAI_API_KEY: "sk-not-a-real-key-of-anyone" },
    environment: {
      NODE_COMPILE_CACHE: process.env.NODE_COMPILE_CACHE ?? "",
      OPENAI_BASE_URL: model.url,
      GOLEM_FORGE_STATUS_INTERVAL_MS: "50",
      GOLEM_FORGE_WRITE_INTERVAL_MS: "0",
      GOLEM_FORGE_SANDBOX: "off",
      ...options.environment,
    },
  });
  const printed = () =>
    runner.finished.map(({ number, event, output }) => `job ${number} (${event}):\n${output}`).join("\n");

  /** Resolves to the first result of `find` for the thread that is not undefined. */
  function inThread<T>(number: number, find: (thread: SnapshotThread) => T | undefined, what: string): Promise<T> {
    return github
      .until(
        (snapshot) => {
          const [first] = Object.values(snapshot);
          const thread = [...(first?.issues ?? []), ...(first?.pulls ?? [])].find((one) => one.number === number);
          return thread && find(thread);
        },
        { what, timeoutMs },
      )
      .catch((error: Error) => {
        throw new Error(`${error.message}\n${printed()}`);
      });
  }

  return {
    github,
    model,
    runner,
    printed,
    inThread,
    /** Resolves to the jobs' first comment that matches. */
    botComment: (number: number, pattern: RegExp): Promise<SnapshotComment> =>
      inThread(
        number,
        ({ comments }) => comments.find(({ author, body }) => author === github.botLogin && pattern.test(body)),
        `a comment of a job like ${pattern}`,
      ),
    close: async () => {
      await runner.close();
      await github.close();
      await model.close();
    },
  };
}

export type ActionWorld = Awaited<ReturnType<typeof startActionWorld>>;
