import { mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Writable } from "node:stream";
import { expect, test } from "vitest";
import { addUser } from "#playground/github/create-world.ts";
import type { SnapshotComment } from "#playground/github/snapshot.ts";
import { runGit } from "#sandbox/checkout/run-git.ts";
import type { CommandContext } from "#terminal/golem/command-context.ts";
import { audit } from "#terminal/golem/database-commands.ts";
import { byTurn, call, type Script } from "../support/forge-stories.ts";
import { approvalIdIn, forgeRepository } from "../support/forge-world.ts";
import { type SharedForge, shareForge } from "../support/shared-forge.ts";

const openForge = shareForge();

/** An app on a repository with these settings, and an issue on which the maintainer has started a worker. */
async function started(settings: string, script: Script, files: Record<string, string> = {}) {
  const commits = forgeRepository.commits.map((commit) => ({
    ...commit,
    files: { ...commit.files, ".github/golem-forge.yml": settings, ...files },
  }));
  const forge = await openForge(script, { commits, permissions: { second: "write", third: "write" } });
  const { github, botComment } = forge;
  const issue = github.as("visitor").openIssue({ title: "The total is one too high", body: "Two items give 3." });
  github.as("maintainer").comment(issue.number, "/run fixer");
  const request = await botComment(issue.number, /asks for approval/);
  return { forge, github, number: issue.number, request, id: approvalIdIn(request) };
}

const opensPullRequest = byTurn(
  call("read_file", { path: "src/total.js" }),
  call("edit_file", { path: "src/total.js", old_text: "items.length + 1", new_text: "items.length" }),
  call("open_pull_request", { title: "Count every item once", body: "One too many." }),
  { text: "Opened." },
);

test("two other people approve; the commit, the pull request and the ledger say who, and audit does not believe other trailers", async () => {
  const { forge, github, number, id } = await started(
    "approvals: [{ paths: [src/], required: 2 }]\n",
    opensPullRequest,
  );
  const { botComment } = forge;
  const say = (login: string, text: string) => github.as(login).comment(number, text);

  say("maintainer", `/approve ${id}`);
  await botComment(number, /started this run, and this repository requires approval by a second person/);
  say("contributor", `/approve ${id}`);
  await botComment(number, /\*\*1 of 2 approvals\*\* \(by contributor\)/);
  say("contributor", `/approve ${id}`);
  await botComment(number, /You have approved \w+ already/);
  say("contributor", `/revoke ${id} because I was too fast`);
  await botComment(number, /\*\*0 of 2 approvals\*\*/);
  say("second", `/approve ${id}`);
  await botComment(number, /\*\*1 of 2 approvals\*\* \(by second\)/);
  expect(Object.values(await github.snapshot())[0]?.pulls).toEqual([]);
  say("third", `/approve ${id}`);

  const pull = await github.until((snapshot) => Object.values(snapshot)[0]?.pulls[0]);
  expect(pull.body).toMatch(/### Approvals[\s\S]*\| `open_pull_request` \| `second`, `third` \|/);
  await botComment(number, /Approved by second and third/);
  say("second", `/revoke ${id}`);
  await botComment(number, /It is too late to revoke/);
  // The ledger has the execution when the call has ended.
  await botComment(number, /Opened\./);

  const checked = await runAudit(forge, [pull.pull?.commit ?? ""]);
  expect(checked.code, checked.text).toBe(0);
  expect(checked.text).toMatch(/requested by +maintainer <\d+\+maintainer@/);
  expect(checked.text.match(/in the ledger\n/g)).toHaveLength(2);
  expect(await runAudit(forge, [])).toMatchObject({ code: 0, text: expect.stringContaining("The ledger is intact") });
  expect(await runAudit(forge, ["main"])).toMatchObject({ code: 1, text: expect.stringContaining("no trailers") });

  const [, runId = ""] = /run +(\S+)/.exec(checked.text) ?? [];
  for (const [branch, run, reason] of [
    ["forged", runId, "NOT confirmed: the run did not push it"],
    ["unknown", "zzzzzzzz", "NOT confirmed: the database has no such run"],
  ] as const) {
    const trailers = `Golem-Forge-Run: ${run}\nRequested-By: maintainer <1+maintainer@users.noreply.github.com>`;
    const message = `Count every item twice\n\n${trailers}`;
    await github.push({ branch, message, author: "contributor", at: new Date(), files: { "src/total.js": "2" } });
    expect(await runAudit(forge, [`origin/${branch}`])).toMatchObject({
      code: 1,
      text: expect.stringContaining(reason),
    });
  }
});

async function runAudit(
  { github, databasePath }: SharedForge,
  args: string[],
): Promise<{ code: number; text: string }> {
  let text = "";
  const output = new Writable({
    write(chunk, _encoding, done) {
      text += chunk;
      done();
    },
  });
  const cwd = await mkdtemp(join(tmpdir(), "golem-forge-audit-"));
  const env = { GIT_ALLOW_PROTOCOL: "file" };
  await runGit(["clone", "--quiet", github.repository().gitDirectory, "."], { cwd, env });
  const context = { env: {}, cwd, output, errors: output } as unknown as CommandContext;
  const code = await audit(["verify", ...args, "--database", databasePath], context);
  return { code, text };
}

test("an owner has to approve, and a team that GitHub does not answer about is asked again", async () => {
  const { forge, github, number, id } = await started("approvals: [{ codeowners: true }]\n", opensPullRequest, {
    ".github/CODEOWNERS": "*.md @third\n/src/ @playground/core\n",
  });
  github.world.teams.set("playground/core", new Set(["second"]));

  github.as("third").comment(number, `/approve ${id}`);
  await forge.botComment(number, /third may not approve here\. Approvers: .*playground\/core/);
  let failures = 2;
  github.onRequest(({ operation }) =>
    operation?.includes("/memberships/") && failures-- > 0 ? { status: 502 } : undefined,
  );
  github.as("second").comment(number, `/approve ${id}`);

  await forge.botComment(number, /Approved by second/);
  expect(failures).toBeLessThan(1);
  await github.until((snapshot) => Object.values(snapshot)[0]?.pulls[0]);
});

test("a renamed person keeps the right to approve, and the login's new owner does not gain it", async () => {
  const { forge, github, number, id } = await started("approvers: [second]\n", opensPullRequest);
  github.accountChanges.renameOwner("second", "renamed");
  addUser(github.world, "second", "User");
  github.repository().permissions.set("second", "write");

  github.as("second").comment(number, `/approve ${id}`);
  await forge.botComment(number, /second may not approve here/);
  github.as("renamed").comment(number, `/approve ${id}`);

  await forge.botComment(number, /Approved by renamed/);
  await github.until((snapshot) => Object.values(snapshot)[0]?.pulls[0]);
});

const box = /^- \[ \] Approve `\w+` exactly as shown$/m;

/** A run that asks to delete the readme. */
function asksToDelete() {
  const script = byTurn(call("delete_file", { path: "README.md" }), { text: "It is gone." });
  return started("approve_by_checkbox: true\napprovers: [maintainer]\n", script);
}

/** Resolves to a request that was posted after this one. */
function postedAgain({ inThread }: SharedForge, number: number, request: SnapshotComment): Promise<SnapshotComment> {
  return inThread(
    number,
    ({ comments }) => comments.find(({ id, body }) => id > request.id && box.test(body)),
    "the request in a new comment",
  );
}

const tick = (body: string) => body.replace("- [ ] ", "- [x] ");

test("ticking the box of a request approves exactly what it shows, by someone who may approve", async () => {
  const { forge, github, number, request } = await asksToDelete();

  github.as("contributor").editComment(request.id, tick(request.body));
  await forge.botComment(number, /contributor may not approve here/);
  await forge.inThread(
    number,
    ({ comments }) => comments.find(({ id, body }) => id === request.id && body === request.body),
    "the request as it was",
  );
  github.as("maintainer").editComment(request.id, tick(request.body).replaceAll("\n", "\r\n"));

  await forge.botComment(number, /✅ Approved by maintainer/);
  await forge.botComment(number, /It is gone\./);
  expect(forge.model.requests).toHaveLength(2);
});

test("an edit that changes anything else approves nothing, and only answers to the request that is posted again count", async () => {
  const { forge, github, number, request } = await asksToDelete();
  const maintainer = github.as("maintainer");

  maintainer.editComment(request.id, tick(request.body).replace("README.md", "LICENSE"));
  const again = await postedAgain(forge, number, request);
  const id = approvalIdIn(again);
  await forge.botComment(number, new RegExp(`The request \`${id}\` of \\*\\*fixer\\*\\* was edited here`));
  expect(again.body).toBe(request.body);
  expect(forge.model.requests).toHaveLength(1);

  maintainer.comment(number, `/approve ${id}`);
  await forge.botComment(number, /It is gone\./);
});

test("an approval does not count while the comment with the request is edited", async () => {
  const { forge, github, number, request, id } = await asksToDelete();
  const maintainer = github.as("maintainer");

  // Like an edit whose delivery has not arrived.
  Object.assign(github.repository().comments.get(request.id) ?? {}, {
    body: request.body.replace("README.md", "LICENSE"),
  });
  maintainer.comment(number, "/approve");
  await forge.botComment(
    number,
    new RegExp(`request ${id} was edited or deleted after it was posted, so nothing was approved`),
  );
  const again = await postedAgain(forge, number, request);
  expect(forge.model.requests).toHaveLength(1);

  expect(again.body).toBe(request.body);
  maintainer.comment(number, "/approve");
  await forge.botComment(number, /It is gone\./);
});

test("a tool command is confirmed only while the comment that shows the call is unedited", async () => {
  const write = call("write_file", { path: "NOTES.md", content: "One more.\n" });
  const { github, botComment } = await openForge(byTurn(write, { text: "It is written." }));
  const maintainer = github.as("maintainer");
  const { number } = maintainer.openIssue({ title: "Push it by hand", body: "It is broken." });
  maintainer.comment(number, "/run fixer");
  await botComment(number, /It is written\./);
  maintainer.comment(number, "/git_push");
  const shown = await botComment(number, /needs your confirmation/);
  const command = /^\/tool git_push .*$/m.exec(shown.body)?.[0] ?? "";

  maintainer.editComment(shown.id, shown.body.replace("NOTES.md", "LICENSE"));
  maintainer.comment(number, command);
  await botComment(number, /The comment that showed this call was edited or deleted, so it is shown again\./);

  maintainer.comment(number, command);
  await botComment(number, /`git_push`, run by maintainer/);
});
