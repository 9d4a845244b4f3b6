import { afterAll, onTestFinished } from "vitest";
import type { NewRepository } from "#playground/github/create-world.ts";
import type { ChatRequest } from "#playground/model/model-server.ts";
import { messageText, type Script } from "./forge-stories.ts";
import { type Forge, forgeRepository, startForge } from "./forge-world.ts";

export type SharedForge = Omit<Forge, "model"> & { model: { requests: ChatRequest[] } };

/**
 * Returns a function that opens a new repository in one app that all tests of a file share: starting an app takes longer
 * than most stories. GitHub holds only the repository that was opened last and its forks.
 */
export function shareForge(environment: Record<string, string> = {}) {
  let forge: Promise<Forge> | undefined;
  let opened = 0;
  let current: { name: string; script: Script; requests: ChatRequest[] } | undefined;

  const script: Script = (request) => {
    const [, name = ""] =
      /(?:issue|pull request) #\d+ of [^\s/]+\/([^\s,]+), in a sandbox/.exec(messageText(request.messages[0])) ?? [];
    // The request is from a run of an earlier test.
    if (name !== current?.name) return { status: 400, message: `There is no script for ${name}.` };
    current.requests.push(request);
    return current.script(request);
  };

  async function start(): Promise<Forge> {
    const started = await startForge({ script, environment: { GOLEM_FORGE_RUNS_PER_HOUR: "1000", ...environment } });
    await started.start();
    return started;
  }

  afterAll(async () => (await forge)?.close());

  return async (script: Script, repository: Partial<NewRepository> = {}): Promise<SharedForge> => {
    forge ??= start();
    const shared = await forge;
    await shared.github.deliveriesSettled();
    opened += 1;
    current = { name: `${forgeRepository.name}-${opened}`, script, requests: [] };
    shared.github.world.repositories.clear();
    await shared.github.createRepository({ ...forgeRepository, ...repository, name: current.name });

    const onRequest: Forge["github"]["onRequest"] = (interceptor) => {
      const restore = shared.github.onRequest(interceptor);
      onTestFinished(restore);
      return restore;
    };
    const github = new Proxy(shared.github, {
      get: (target, name) => {
        if (name === "onRequest") return onRequest;
        const value = Reflect.get(target, name);
        return typeof value === "function" ? value.bind(target) : value;
      },
    });
    return { ...shared, github, model: { requests: current.requests } };
  };
}
