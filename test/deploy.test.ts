import { spawnSync } from "node:child_process";
import { existsSync, globSync, readFileSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { parseAllDocuments } from "yaml";
import { Environment } from "#config/environment.ts";
import { renderActionWorkflow } from "#setup/action-workflow.ts";

const read = (file: string) => readFileSync(file, "utf8");

test("the image runs as an ordinary user, with a health check, and leaves secrets and tests out", () => {
  const stages = read("Dockerfile").split(/^FROM /m);
  const image = stages.at(-1) ?? "";

  expect(image).toMatch(/^USER node$/m);
  expect(image).toContain("/healthz");
  expect(image).toMatch(/^CMD \["node", "src\/main\.js"\]$/m);
  expect(stages.at(-2)).toMatch(/npm ci --omit=dev --omit=optional --ignore-scripts/);
  expect(read(".dockerignore").split("\n")).toEqual(expect.arrayContaining([".env", "*.pem", ".git", "node_modules"]));
});

test.each(["deploy/compose.yaml", "deploy/kubernetes.yaml"])(
  "%s is valid YAML with a read-only file system",
  (file) => {
    const documents = parseAllDocuments(read(file));

    expect(documents.flatMap(({ errors }) => errors)).toEqual([]);
    expect(JSON.stringify(documents.map((document) => document.toJSON()))).toMatch(
      /"read_only":true|"readOnlyRootFilesystem":true/,
    );
  },
);

const hasSystemd = spawnSync("systemd-analyze", ["--version"]).status === 0;

test.skipIf(!hasSystemd)("systemd accepts the unit, and rates its exposure as at most 3 of 10", async () => {
  const folder = await mkdtemp(join(tmpdir(), "golem-forge-unit-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  const unit = join(folder, "golem-forge.service");
  // It checks that the program exists, which is elsewhere on this machine.
  await writeFile(unit, read("deploy/golem-forge.service").replace("/usr/bin/node", process.execPath));

  const { status, stderr } = spawnSync("systemd-analyze", ["verify", unit], { encoding: "utf8" });

  expect({ status, stderr }).toEqual({ status: 0, stderr: "" });
  // The threshold is in tenths.
  const rating = spawnSync("systemd-analyze", ["security", "--offline=true", "--threshold=30", unit]);
  expect(rating).toMatchObject({ status: 0 });
});

test("every setting that the deployment files give is one that the app reads", () => {
  const files = ["Dockerfile", "deploy/compose.yaml", "deploy/golem-forge.service", "deploy/kubernetes.yaml"];
  const names = files.flatMap(
    (file) => read(file).match(/\b(?:GOLEM_FORGE_[A-Z_]+|DATABASE_URL|PRIVATE_KEY_PATH)\b/g) ?? [],
  );

  expect(names.filter((name) => !(name in Environment.shape))).toEqual([]);
  expect(files.every((file) => existsSync(file))).toBe(true);
});

test("workflows, also the one that golem init writes, use actions by commit and no text from outside", () => {
  const written = renderActionWorkflow({ workflows: [], model: "anthropic:any", from: { version: "0.1.0" } });
  const texts = [...globSync(".github/workflows/*.yml"), "action.yml"].map(read).concat(written);
  const actions = texts.flatMap((text) => text.match(/(?<=- uses: ).*/g) ?? []);
  const expressions = texts.flatMap((text) => text.match(/(?<=\$\{\{ ).*?(?= \}\})/g) ?? []);

  expect(actions.length).toBeGreaterThan(10);
  expect(actions.filter((action) => !/^[\w-]+\/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$/.test(action))).toEqual([]);
  expect(
    expressions.filter((text) => !/^(?:matrix|secrets|steps\.push\.outputs|inputs)\.\w+|^github\.token$/.test(text)),
  ).toEqual([]);
  // One version everywhere.
  expect(new Set(actions).size).toBe(new Set(actions.map((action) => action.split("@")[0])).size);
});
