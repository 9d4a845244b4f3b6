import { randomUUID } from "node:crypto";
import { ToolError } from "#domain/errors.ts";
import type { GitHub } from "#domain/github.ts";
import { WorkerDefinition } from "#domain/worker.ts";
import type { Workspace } from "#domain/workspace.ts";
import type { Executors } from "#executors/create-executors.ts";
import type { GitSandbox } from "#sandbox/git-sandbox.ts";
import type { ToolServices } from "#toolsets/toolset.ts";

/** The services that built-in toolsets need, for a program without a run: files and commands, but no repository. */
export function programServices(workspace: Workspace, executors?: Executors): ToolServices {
  const id = randomUUID();
  const base = "base" in workspace ? (workspace.base as GitSandbox["base"]) : { commit: id, branch: "memory" };
  return {
    spec: {
      id,
      rootId: id,
      depth: 0,
      workerPath: "program",
      worker: WorkerDefinition.parse({ name: "program", instructions: "None" }),
      workerSource: "deployment",
      model: "none:none",
      origin: {
        installationId: 0,
        owner: "local",
        repo: "local",
        thread: 0,
        isPullRequest: false,
        requestedBy: "local",
      },
      createdAt: Date.now(),
    },
    workspace,
    sandbox: onlyWith<GitSandbox>({ ...workspace, base, log: async () => [] }, "repository"),
    github: onlyWith<GitHub>({}, "GitHub"),
    branch: base.branch,
    history: () => [],
    workers: async () => [],
    sanitize: (text) => text,
    ...(executors && { executors }),
  };
}

/** The given members; using any other one fails with the name of what is missing. */
function onlyWith<T extends object>(given: Partial<T>, missing: string): T {
  return new Proxy(given as T, {
    get(target, name, receiver) {
      if (name in target || typeof name === "symbol" || name === "then") return Reflect.get(target, name, receiver);
      throw new ToolError(`There is no ${missing} here.`, {
        code: "UNAVAILABLE",
        suggestion: "Use tools that work on files alone.",
      });
    },
  });
}
