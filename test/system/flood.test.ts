import { execFileSync } from "node:child_process";
import { afterAll, beforeAll, expect, test } from "vitest";
import { turnOf } from "#playground/model/model-server.ts";
import { byTurn, call, postWebhook, type Script, type Stories, startStories } from "../support/forge-stories.ts";
import { approvalIdIn, forgeRepository } from "../support/forge-world.ts";
import { delayOf, type HealthProbe, type HealthSample, startHealthProbe } from "../support/health-probe.ts";

const worker = (frontMatter: string) => `---\n${frontMatter}\n---\nWork.\n`;
const workerFiles = {
  ".github/workers/flooder.worker": worker(
    "name: flooder\ntoolsets:\n  filesystem: {}\n  search: {}\n  git: {}\n  shell: {}\n  pull_request: {}\nsandbox:\n  approval:\n    write: preApproved\n    delete: preApproved",
  ),
  ".github/workers/aliases.worker": worker(
    Array.from({ length: 12 }, (_, level) =>
      level === 0 ? "a0: &a0 [x, x, x, x, x, x, x, x, x]" : `a${level}: &a${level} [${`*a${level - 1}, `.repeat(9)}]`,
    ).join("\n"),
  ),
  ".github/workers/brackets.worker": worker(`a: ${"[".repeat(240_000)}`),
  ".github/workers/braces.worker": worker(`a: ${"{a: ".repeat(60_000)}`),
  ".github/workers/dashes.worker": worker("- ".repeat(120_000)),
  ".github/workers/questions.worker": worker("? ".repeat(120_000)),
  ".github/workers/quotes.worker": worker(`a: "${'\\"'.repeat(120_000)}`),
  ".github/workers/anchors.worker": worker(Array.from({ length: 20_000 }, (_, i) => `k${i}: &a${i} v`).join("\n")),
  ".github/workers/keys.worker": worker(Array.from({ length: 30_000 }, (_, i) => `k${i}: v`).join("\n")),
  ".github/workers/indents.worker": worker(Array.from({ length: 600 }, (_, i) => `${" ".repeat(i)}k${i}:`).join("\n")),
  ".github/workers/dashed.worker": `---\n${"---\n".repeat(60_000)}`,
};
const files = {
  ...forgeRepository.commits[0]?.files,
  ...workerFiles,
  "large.txt": Array.from({ length: 1_000_000 }, (_, index) => `line ${index} of many\n`).join(""),
  "medium.txt": Array.from({ length: 40_000 }, (_, index) => `a line ${index} of many\n`).join(""),
  "brackets.txt": "[".repeat(5_000_000),
};
const commit = { branch: "main", message: "A shop", author: "maintainer", at: new Date("2025-01-02T03:04:05Z"), files };

/** A text that is read in more than linear time takes seconds. */
const maxDelayMs = 500;

let forge: Stories;
let health: HealthProbe;

beforeAll(async () => {
  forge = await startStories({
    repositories: [{ ...forgeRepository, commits: [{ ...commit, files }] }],
  });
  addTreeBomb(forge.github.repository().gitDirectory);
  const { pid = 0 } = await forge.startProcess();
  health = await startHealthProbe({ url: forge.url, pid });
  // Modules that only runs need are loaded by the first one.
  const story = forge.open({ title: "Before the flood", script: byTurn({ text: "Ready." }) });
  story.comment("/run flooder");
  await story.botComment(/Ready\./);
});
afterAll(async () => {
  await health.close();
  await forge.close();
});

/** Fails if the app does not respond for too long in every attempt, since other programs on this machine also delay it. */
async function staysResponsive(work: () => Promise<unknown>): Promise<void> {
  let slowest: HealthSample | undefined;
  for (let attempt = 0; attempt < 3; attempt += 1) {
    await health.take();
    await work();
    slowest = (await health.take()).sort((a, b) => delayOf(b) - delayOf(a))[0];
    if (!slowest || delayOf(slowest) < maxDelayMs) return;
  }
  expect(slowest && delayOf(slowest), JSON.stringify(slowest)).toBeLessThan(maxDelayMs);
}

const hostileTexts = {
  "the beginnings of tokens": "eyJ".repeat(20_000),
  "a token that never ends": `eyJ${"a".repeat(60_000)}`,
  "escape sequences": "\u001b[31m\u001b]0;x\u001b[".repeat(4_000),
  brackets: "[".repeat(60_000),
  "half surrogates": "\ud800".repeat(30_000),
  "fences and quotes": "> ```\n".repeat(10_000),
  comments: "<!--".repeat(15_000),
  "HTML tags": "<details><summary>".repeat(3_000),
  "private keys": "-----BEGIN RSA PRIVATE KEY-----\n".repeat(1_800),
  spaces: `/run fixer${" ".repeat(60_000)}x`,
};

test("comments, titles and answers with hostile texts", async () => {
  await staysResponsive(async () => {
    // One after the other. The app responds between many short turns of work, even if there are a lot of them.
    for (const [title, body] of Object.entries(hostileTexts)) {
      const story = forge.open({ title: `Hostile: ${title}`, body, script: byTurn({ text: body }) });
      story.comment(body);
      story.comment(`@golem-forge ${body}`);
      forge.github.as("maintainer").editThread(story.issue.number, { body: body.slice(1) });
      story.comment("/run fixer");
      await story.botComment(/^### ✅ \*\*fixer\*\*/);
    }
    await forge.github.deliveriesSettled();
  });
});

test("a push of as many commits as one delivery has", async () => {
  const commits = Array.from({ length: 2_048 }, (_, id) => ({ id, message: "eyJ[<!--".repeat(100), added: ["a.txt"] }));

  await staysResponsive(async () => {
    const body = JSON.stringify({ ref: "refs/heads/main", commits });
    expect(await postWebhook(forge, { body, event: "push" })).toBe(200);
  });
});

test("worker files that are built to take long to parse", async () => {
  await staysResponsive(async () => {
    for (const path of Object.keys(workerFiles).slice(1)) {
      const story = forge.open({ title: `Worker file ${path}` });
      story.comment(`/run ${path.replace(/^.*\/|\.worker$/g, "")}`);
      await story.botComment(/./);
    }
  });
});

test("edits of a file of 20 MB, searches in it, and a change of all of it", async () => {
  const script = byTurn(
    call("read_file", { path: "large.txt" }),
    call("edit_file", { path: "large.txt", old_text: "a text that is not there\nat all", new_text: "x" }),
    call("edit_file", { path: "large.txt", old_text: "line 1 of many\n", new_text: "" }),
    call("edit_file", { path: "large.txt", old_text: "a", new_text: "bb", replace_all: true }),
    call("edit_file", { path: "brackets.txt", old_text: "[[[[", new_text: "]", replace_all: true }),
    call("grep", { pattern: "(x+x+)+y|^.*many$" }),
    call("search_code", { query: "line of many" }),
    call("move_file", { source: "large.txt", destination: "moved.txt" }),
    call("git_diff", {}),
    call("git_status", {}),
    { text: "Edited." },
  );

  await staysResponsive(async () => {
    const { comment, botComment } = forge.open({ title: "Edit the large file", script });
    comment("/run flooder");
    await botComment(/Edited\./);
  });
});

test("a pull of a few trees that make billions of files", async () => {
  const script: Script = ({ messages }) => {
    if (turnOf(messages) > 0) return { text: "Pulled." };
    moveMain("bomb");
    return call("git_pull", {});
  };

  await staysResponsive(async () => {
    const { comment, botComment } = forge.open({ title: "Pull the branch", script });
    comment("/run flooder");
    await botComment(/Pulled\./);
    moveMain("before-the-bomb");
  });
});

test("a request for approval of more changes than it can show", async () => {
  const files =
    "mkdir many; for i in {1..60}; do seq $i 3000 > many/$i.txt; done; sed -i s/a/bb/ medium.txt; sed s/1/2/ medium.txt > b.txt; for i in {1..4}; do head -c 9900000 /dev/zero > $i.bin; echo $i >> $i.bin; done";
  const script = byTurn(
    call("bash", { command: files }),
    call("git_diff", {}),
    call("open_pull_request", { title: "Much", body: hostileTexts["fences and quotes"] }),
    { text: "Proposed." },
  );

  await staysResponsive(async () => {
    const { comment, botComment } = forge.open({ title: "Propose much", script });
    comment("/run flooder");
    comment(`/approve ${approvalIdIn(await botComment(/asks for approval[\s\S]*Tool `bash`/))}`);
    await botComment(/asks for approval[\s\S]*Tool `open_pull_request`|Proposed\./);
  });
});

test("output of a command that is nothing but the beginnings of something", async () => {
  const script = byTurn(
    call("bash", { command: "head -c 8000000 /dev/zero | tr '\\0' '['; printf 'eyJ%.0s' {1..9000}" }),
    call("bash", { command: `echo ${"$(".repeat(3_000)}` }),
    call("bash", { command: `cat ${"<<E ".repeat(5_000)}` }),
    call("bash", { command: "cat large.txt | tr 'a' '\\033'" }),
    { text: "Printed." },
  );

  await staysResponsive(async () => {
    const { comment, botComment } = forge.open({ title: "Print much", script });
    comment("/run flooder");
    await botComment(/Printed\.|asks for approval/);
  });
});

test("the process that was flooded still works", async () => {
  const story = forge.open({ title: "After the flood", script: byTurn({ text: "Still here." }) });

  story.comment("/run fixer");

  await story.botComment(/Still here\./);
});

/** Adds the branch `bomb`: ten folders in each of ten levels, so ten billion files. */
function addTreeBomb(repository: string): void {
  const git = (args: string[], input = "") =>
    execFileSync("git", ["-C", repository, ...args], { input, encoding: "utf8" }).trim();
  let entry = `100644 blob ${git(["hash-object", "-w", "--stdin"], "boom\n")}`;
  let tree = "";
  for (let level = 0; level < 10; level += 1) {
    tree = git(["mktree"], Array.from({ length: 10 }, (_, index) => `${entry}\tf${index}\n`).join(""));
    entry = `040000 tree ${tree}`;
  }
  const identity = ["-c", "user.name=A", "-c", "user.email=a@example.com"];
  const commit = git([...identity, "commit-tree", tree, "-p", "refs/heads/main", "-m", "boom"]);
  git(["update-ref", "refs/heads/bomb", commit]);
  git(["update-ref", "refs/heads/before-the-bomb", "refs/heads/main"]);
}

function moveMain(branch: string): void {
  const { gitDirectory } = forge.github.repository();
  execFileSync("git", ["-C", gitDirectory, "update-ref", "refs/heads/main", `refs/heads/${branch}`]);
}
