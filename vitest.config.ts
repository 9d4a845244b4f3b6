import { availableParallelism } from "node:os";
import { defineConfig } from "vitest/config";
import { BaseSequencer, type TestSpecification } from "vitest/node";

/** Files that start many processes first, while the workers are small: a process that has grown takes ten times as long to
 * start another. Then long files, so that no worker is alone with one at the end. */
const order = [
  ...["/system/package", "/system/github-action", "/system/replicas", "/system/crash", "/system/"],
  ...["/terminal/golem", "/toolsets/code/", "/executors/", "/terminal/"],
  ...["/sandbox/checkout/", "/toolsets/shell/", "/sandbox/git/blame"],
  ...["/e2e/pull-request-conversation", "/runtime/runs", "/bot/deliveries/handle-comment", "/e2e/", "/bot/"],
  ...["/toolsets/", "/playground/", "/web/", "/sandbox/", "/runtime/"],
];

class ByFolder extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rank = ({ moduleId }: TestSpecification) => {
      const found = order.findIndex((folder) => moduleId.includes(folder));
      return found < 0 ? order.length : found;
    };
    return files.sort((a, b) => rank(a) - rank(b) || (a.moduleId < b.moduleId ? -1 : 1));
  }
}

/** The tests that scripts/mutate.ts and scripts/remove-features.ts run against each change of the code. */
const mutationTests = process.env.GOLEM_FORGE_MUTATION_TESTS?.split(" ");

export default defineConfig({
  test: {
    include: mutationTests ?? ["test/**/*.test.ts"],
    globalSetup: mutationTests ? [] : "test/support/global-setup.ts",
    ...(mutationTests && { provide: { postgresFolder: process.env.GOLEM_FORGE_MUTATION_POSTGRES } }),
    // A busy machine is slow, and a wait that succeeds costs nothing.
    testTimeout: 300_000,
    hookTimeout: 300_000,
    expect: { poll: { timeout: 120_000 } },
    // One more than the cores, because tests with real processes and servers spend some of their time waiting. Each worker loads
    // all modules, which takes two seconds of CPU.
    maxWorkers: Math.min(4, availableParallelism() + 1),
    // A shared machine can pause for seconds, and tests with real processes have deadlines. The report names retries.
    retry: process.env.CI && !mutationTests ? 2 : 0,
    // Loading the modules anew for each file took a third of the time; no file changes what another one sees.
    isolate: false,
    sequence: { sequencer: ByFolder },
    // Node runs the TypeScript itself, and caches what it compiled. Mutation testing inserts its mutants through Vite.
    experimental: { viteModuleRunner: mutationTests !== undefined, nodeLoader: false },
  },
});
