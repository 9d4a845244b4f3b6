import { execFile, spawnSync } from "node:child_process";
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { stripTypeScriptTypes } from "node:module";
import { dirname, join, resolve } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { golemWorld } from "../support/golem-world.ts";
import { privateKey } from "../support/test-github.ts";

const run = promisify(execFile);
// Below this checkout's packages, so that the dependencies are found as npm would have installed them.
const folder = mkdtempSync(resolve("node_modules/.installed-"));
const installed = join(folder, "node_modules/golem-forge");

beforeAll(async () => {
  await run(process.execPath, ["scripts/build.ts"]);
  const { stdout } = await run("npm", ["pack", join(process.cwd(), "dist"), "--silent"], { cwd: folder });
  mkdirSync(installed, { recursive: true });
  await run("tar", ["-xzf", join(folder, stdout.trim()), "-C", installed, "--strip-components=1"]);
  writeFileSync(join(folder, "package.json"), '{ "type": "module" }');
}, 600_000);

afterAll(() => rmSync(folder, { recursive: true, force: true }));

describe("the npm package", () => {
  test("the npm package runs its command, whose bundle finds the included workers and the programs that it starts", async () => {
    const { root, env, sent } = await golemWorld({
      turns: [{ calls: [{ name: "shell", args: { command: "echo $((6 * 7))" } }] }, { text: "It printed 42." }],
      files: {
        ".github/workers/printer.worker":
          "---\nname: printer\ntoolsets: { shell: { default: { approval: preApproved } } }\n---\nYou print.\n",
      },
    });
    const golem = (...words: string[]) =>
      run(process.execPath, [join(installed, "src/terminal/launch-golem.js"), ...words], {
        cwd: root,
        env: { ...process.env, ...env },
      });

    const workers = await golem("workers");
    const answer = await golem("run", "printer", "Print a number.");

    expect(workers.stdout).toMatch(/^fixer /m);
    expect(answer.stdout).toContain("It printed 42.");
    expect(sent()).toMatch(/stdout:(\\n)+42\\n/);
  });

  test("the npm package contains the licenses of the packages in its bundles", () => {
    const licenses = readFileSync(join(installed, "bundle/LICENSES.txt"), "utf8");

    expect(licenses).toContain("Copyright (c) 2025 Colin McDonnell");
    expect(licenses).toMatch(/^yaml \S+ \(ISC\)$/m);
  });

  test("the npm package runs a worker in a program, tools in guarded processes included", async () => {
    writeFileSync(join(folder, "program.js"), program);

    const { stdout } = await run(process.execPath, ["program.js"], { cwd: folder });

    expect(JSON.parse(stdout)).toEqual({ success: true, response: "It printed 42." });
  });

  test("the npm package runs the examples of docs/compat.md, which print what they say", async () => {
    const files = examples.map((code, index) => {
      const file = join(folder, `example-${index}.js`);
      writeFileSync(file, stripTypeScriptTypes(code));
      return file;
    });
    writeFileSync(
      join(folder, "examples.js"),
      files.map((file) => `await import(${JSON.stringify(file)});`).join("\n"),
    );

    const { stdout } = await run(process.execPath, ["--no-warnings", "examples.js"], { cwd: folder });

    const expected = examples.flatMap((code) => [...code.matchAll(/^(?:.*console\.log\(.*|)\/\/ (.*)$/gm)]);
    expect(stdout.trim().split("\n").filter(Boolean)).toEqual(expected.map(([, line]) => line));
  });

  test("the npm package type-checks in a strict program that also checks libraries, with every example of the five documents", async () => {
    writeFileSync(join(folder, "program.ts"), typed);
    for (const [path, code] of documents) {
      mkdirSync(dirname(join(folder, path)), { recursive: true });
      writeFileSync(join(folder, path), code);
    }
    writeFileSync(join(folder, "tsconfig.json"), tsconfig);

    const { stdout } = await run("node_modules/.bin/tsc", ["-p", folder]).catch((error) => error);

    expect(stdout).toBe("");
    expect(documents.length).toBeGreaterThan(50);
  });
});

const isolated = [
  ...[
    "--unshare-user",
    "--uid",
    "1000",
    "--gid",
    "1000",
    "--unshare-pid",
    "--unshare-net",
    "--die-with-parent",
    "--clearenv",
  ],
  ...["/usr", "/etc"].flatMap((path) => ["--ro-bind", path, path]),
  ...["bin", "lib", "lib64", "sbin"].flatMap((name) => ["--symlink", `usr/${name}`, `/${name}`]),
  ...["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"],
];
const hasBubblewrap = spawnSync("bwrap", [...isolated, "true"]).status === 0;

describe.skipIf(!hasBubblewrap)("the container image, put together without a container engine", () => {
  const [, image = ""] = /^FROM [^\n]*\n(?![\s\S]*^FROM )([\s\S]*)/m.exec(readFileSync("Dockerfile", "utf8")) ?? [];
  const command = (instruction: RegExp): string[] => JSON.parse(instruction.exec(image)?.[1] ?? "[]");
  const tree = join(folder, "image");

  beforeAll(async () => {
    const { packages } = JSON.parse(readFileSync("package-lock.json", "utf8"));
    const production = Object.entries<Record<string, boolean>>(packages)
      .filter(([path, { dev, optional, devOptional }]) => path !== "" && !dev && !optional && !devOptional)
      .map(([path]) => path)
      // A package below another one is copied with it.
      .filter((path) => path.lastIndexOf("node_modules/") === 0 && existsSync(path));
    cpSync(installed, tree, { recursive: true });
    await run("cp", ["--archive", "--link", "--parents", ...production, tree]);
    const [removal] = /(?<=^RUN )find \. .* -delete$/m.exec(readFileSync("Dockerfile", "utf8")) ?? [""];
    await run("sh", ["-c", removal], { cwd: tree });
  });

  test("the container image starts as an ordinary user on a read-only file system, passes its health check, and stops when it is asked to", async () => {
    const data = join(folder, "data");
    mkdirSync(data);
    chmodSync(data, 0o777);
    const settings = {
      ...Object.fromEntries([...image.matchAll(/(\w+)=(\S+)/g)].map(([, name = "", value = ""]) => [name, value])),
      PATH: "/usr/bin:/bin",
      APP_ID: "1",
      PRIVATE_KEY: privateKey,
      WEBHOOK_SECRET: "a secret",
      GHE_HOST: "127.0.0.1:2",
      GOLEM_FORGE_URL: "http://localhost:3000",
      GOLEM_FORGE_MODEL: "openai:gpt-5",
      OPENAI_API_KEY: "a key of nobody",
    };
    const [node = "", ...args] = command(/^CMD (\[.*\])$/m);
    const [, ...health] = command(/^ {2}CMD (\[.*\])$/m);

    const { stdout } = await run(
      "bwrap",
      [
        ...isolated,
        ...[
          "--ro-bind",
          tree,
          "/app",
          "--bind",
          data,
          "/data",
          "--ro-bind",
          process.execPath,
          "/node",
          "--chdir",
          "/app",
        ],
        ...Object.entries(settings).flatMap(([name, value]) => ["--setenv", name, value]),
        ...["sh", "-c", inContainer, "sh", health[0] ?? "", health[1] ?? "", ...args],
      ],
      { timeout: 110_000 },
    );

    expect(node).toBe("node");
    expect(settings).toMatchObject({ HOST: "0.0.0.0", PORT: "3000", NODE_ENV: "production" });
    expect(stdout.trim().split("\n").slice(-4)).toEqual([
      "uid 1000, /app is read-only",
      "healthy",
      "the style sheet of run pages: 200",
      "exit 0",
    ]);
    expect(readdirSync(data)).toContain("golem-forge.db");
  });

  test("the container image contains only what the app needs to run: no sources, tests, documents or development packages", async () => {
    const files = readdirSync(tree, { recursive: true, withFileTypes: true }).filter((file) => file.isFile());
    const { stdout } = await run("du", ["-sm", tree]);

    expect(readdirSync(tree).sort()).toEqual([
      ...["CHANGELOG.md", "LICENSE", "README.md", "app.yml", "bundle", "evals", "node_modules", "package.json"],
      ...["src", "workers"],
    ]);
    expect(files.filter(({ name }) => /\.(map|d\.[mc]?ts|pem)$/.test(name))).toEqual([]);
    expect(files.filter(({ name, parentPath }) => /\.ts$/.test(name) && !parentPath.includes("node_modules/"))).toEqual(
      [],
    );
    expect(["typescript", "vitest", "node"].filter((name) => existsSync(join(tree, "node_modules", name)))).toEqual([]);
    expect(Number.parseInt(stdout, 10)).toBeLessThan(220);
  });
});

/** Starts the app, waits for its health check, and stops it. The arguments: those of the check, and then those of the app. */
const inContainer = `
check_flag=$1 check=$2; shift 2
touch /app/x 2>/dev/null || echo "uid $(id -u), /app is read-only"
/node "$@" >/tmp/log 2>&1 & app=$!
until /node "$check_flag" "$check" 2>/dev/null; do kill -0 $app || { cat /tmp/log; exit 1; }; sleep 0.2; done
echo healthy
asset=http://127.0.0.1:$PORT/runs/-/assets/run.css
/node -e "fetch('$asset').then(({ status }) => console.log('the style sheet of run pages:', status))"
kill -TERM $app; wait $app; echo "exit $?"
`;

const program = `
import { WorkerRuntime } from "golem-forge";

const answer = (text, calls) => ({
  text, calls, searches: [], cost: undefined, usage: { inputTokens: 1, outputTokens: 1 }, finishReason: "stop",
  messages: [{ role: "assistant", content: [...(text ? [{ type: "text", text }] : []), ...calls.map(({ callId, tool, args }) =>
    ({ type: "tool-call", toolCallId: callId, toolName: tool, input: args }))] }],
});
const models = {
  defaultModel: "scripted:model",
  findModelProblem: () => undefined,
  findToolProblem: () => undefined,
  call: async ({ messages }) => {
    const answered = JSON.stringify(messages.at(-1));
    if (messages.length === 1) return answer("", [{ callId: "a", tool: "shell", args: { command: "echo 42" } }]);
    return answer(answered.includes("42") ? "It printed 42." : answered, []);
  },
};
const runtime = new WorkerRuntime({
  worker: { name: "helper", instructions: "You help.", toolsets: { shell: { default: { approval: "preApproved" } } } },
  models,
});
await runtime.initialize();
const { success, response } = await runtime.run("Print 42.");
await runtime.dispose();
console.log(JSON.stringify({ success, response }));
`;

const typed = `
import { type NamedTool, WorkerRuntime } from "golem-forge";
import { z } from "zod";

const tool: NamedTool = { name: "greet", description: "Greets", inputSchema: z.object({}), execute: async () => "hello" };
export const runtime = new WorkerRuntime({ worker: { name: "helper", instructions: "You help." }, tools: [tool] });
`;

const examples = [...readFileSync("docs/compat.md", "utf8").matchAll(/^```ts\n([\s\S]*?)^```/gm)].map(
  ([, code = ""]) => code,
);

/** The names by which other examples import these. */
const importedAs: Record<string, string> = { "3-my-tool": "MyTool", "5-your-tool": "YourTool" };

/** The examples of the five documents, in a tree like those that they import from. */
const documents = [
  ...[
    ...readFileSync("test/support/document-examples.md", "utf8").matchAll(
      /^## (\S+)\n\n(?:```ts given\n([\s\S]*?)^```\n\n)?```ts\n([\s\S]*?)^```/gm,
    ),
  ].map(([, name = "", given = "", code = ""]) => [
    `src/tools/${importedAs[name] ?? name}.ts`,
    `${given}${code}${"}\n".repeat(given.split("{").length - given.split("}").length)}`,
  ]),
  ...["src/tools/BaseTool", "src/types/index", "src/services/ActivityStream", "core/Tool", "core/types"].map((name) => [
    `${name}.ts`,
    'export * from "golem-forge/compat";',
  ]),
  ...examples.map((code, index) => [`example-${index}.ts`, code]),
] as [path: string, code: string][];

const tsconfig = JSON.stringify({
  compilerOptions: {
    strict: true,
    module: "nodenext",
    target: "esnext",
    noEmit: true,
    skipLibCheck: false,
    types: ["node"],
    paths: Object.fromEntries(
      ["@golem-forge/core", "@golem-forge/cli", "@anthropic/golem-forge", "@jest/globals"].map((name) => [
        name,
        [name === "@jest/globals" ? resolve("node_modules/vitest/dist/index.d.ts") : "./src/types/index.ts"],
      ]),
    ),
  },
  files: ["program.ts", ...documents.map(([path]) => path)],
});
