import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: ["test/**/*.test.ts"],
    globalSetup: "test/support/global-setup.ts",
    testTimeout: 30_000,
    hookTimeout: 30_000,
    maxWorkers: 2,
    // Loading the modules anew for each file took a third of the time; no file changes what another one sees.
    isolate: false,
  },
});
