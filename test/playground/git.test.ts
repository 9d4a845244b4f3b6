import { execFile } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import git from "isomorphic-git";
import http from "isomorphic-git/http/node";
import { memfs } from "memfs";
import { afterAll, beforeAll, expect, test } from "vitest";
import { PlaygroundWorld, shop } from "../support/playground-world.ts";

let world: PlaygroundWorld;
let folder: string;

beforeAll(async () => {
  world = await PlaygroundWorld.start({
    repositories: [{ name: "shop", private: true, commits: [history(1), history(2)] }],
  });
  folder = await mkdtemp(join(tmpdir(), "golem-forge-git-test-"));
});
afterAll(async () => {
  await world.close();
  await rm(folder, { recursive: true, force: true });
});

function history(day: number) {
  const at = new Date(`2025-01-0${day}T00:00:00Z`);
  // Large enough that git compresses what it sends.
  const content = Array.from({ length: 4000 }, (_, index) => `line ${index} of day ${day}`).join("\n");
  return { branch: "main", message: `Day ${day}`, author: "maintainer", at, files: { "days.txt": content } };
}

async function native(...args: string[]): Promise<string> {
  const identity = ["-c", "user.name=maintainer", "-c", "user.email=maintainer@example.invalid"];
  const env = { PATH: process.env.PATH ?? "", GIT_TERMINAL_PROMPT: "0", GIT_CONFIG_GLOBAL: "/dev/null" };
  return (await promisify(execFile)("git", [...identity, ...args], { env, cwd: folder })).stdout;
}

function remote(token: string): string {
  return `${world.github.url.replace("//", `//x-access-token:${token}@`)}/playground/shop.git`;
}

test("git clones, pushes a branch, and the branch can become a pull request", async () => {
  const token = await world.token({ permissions: { contents: "write" } });
  await native("clone", "--quiet", remote(token), "clone");
  await native("-C", "clone", "checkout", "--quiet", "-b", "golem/1-abc");
  await writeFile(join(folder, "clone", "days.txt"), "one line\n");
  await native("-C", "clone", "commit", "--quiet", "--all", "--message", "Shorter");

  await native("-C", "clone", "push", "--quiet", "origin", "golem/1-abc");

  const octokit = await world.client();
  const { data } = await octokit.rest.pulls.create({ ...shop, head: "golem/1-abc", base: "main", title: "Shorter" });
  expect(data.head.sha).toBe((await native("-C", "clone", "rev-parse", "HEAD")).trim());
  expect(data.deletions).toBe(4000);
  expect(await world.github.readFile("golem/1-abc", "days.txt")).toBe("one line\n");
});

test("a commit that is not a tip can be fetched by its hash with depth 1", async () => {
  const { fs } = memfs();
  const token = await world.token({ permissions: { contents: "read" } });
  const url = `${world.github.url}/playground/shop.git`;
  const onAuth = () => ({ username: "x-access-token", password: token });

  await git.clone({ fs, http, dir: "/clone", url, onAuth, depth: 1, singleBranch: true });
  const [tip] = await git.log({ fs, dir: "/clone" });
  const older = tip?.commit.parent[0] ?? "";
  await native("init", "--quiet", "older");
  await native("-C", "older", "fetch", "--quiet", "--depth=1", remote(token), older);

  expect(tip?.commit.message).toBe("Day 2\n");
  expect((await native("-C", "older", "log", "--format=%s", "FETCH_HEAD")).trim()).toBe("Day 1");
});

test("the same history has the same hashes every time", async () => {
  const twin = await PlaygroundWorld.start({ repositories: [{ name: "shop", commits: [history(1), history(2)] }] });

  const [{ "playground/shop": here }, { "playground/shop": there }] = await Promise.all([
    world.github.snapshot(),
    twin.github.snapshot(),
  ]);
  await twin.close();

  expect(here?.branches.main).toMatch(/^[0-9a-f]{40}$/);
  expect(here?.branches.main).toBe(there?.branches.main);
});

test.each([
  ["a request without credentials", undefined, "info/refs?service=git-upload-pack", 401],
  ["an unknown token", "ghs_madeup", "info/refs?service=git-upload-pack", 401],
  ["a push with a read-only token", { contents: "read" }, "info/refs?service=git-receive-pack", 403],
  ["a token without the contents permission", { issues: "write" }, "info/refs?service=git-upload-pack", 403],
])("%s is refused", async (_, who, service, status) => {
  const token = typeof who === "object" ? await world.token({ permissions: who }) : who;
  const authorization = `Basic ${Buffer.from(`x-access-token:${token}`).toString("base64")}`;

  const answer = await fetch(`${world.github.url}/playground/shop.git/${service}`, {
    headers: token ? { authorization } : {},
  });

  expect(answer.status).toBe(status);
  expect(answer.headers.get("www-authenticate")).toBe(status === 401 ? 'Basic realm="GitHub"' : null);
});

test("a public repository can be fetched without credentials, but not pushed to", async () => {
  await world.github.createRepository({ name: "open", commits: [history(1)] });
  const ask = (service: string) => fetch(`${world.github.url}/playground/open.git/info/refs?service=${service}`);

  const statuses = [(await ask("git-upload-pack")).status, (await ask("git-receive-pack")).status];

  expect(statuses).toEqual([200, 401]);
});
