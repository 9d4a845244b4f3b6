import { afterAll, beforeAll, expect, test } from "vitest";
import { byTurn, call, type Stories, type Story, startStories } from "../support/forge-stories.ts";
import { forgeRepository } from "../support/forge-world.ts";

let world: Stories;

const settings = "approve_by_checkbox: true\napprovers: [maintainer]\n";

beforeAll(async () => {
  const commits = forgeRepository.commits.map((commit) => ({
    ...commit,
    files: { ...commit.files, ".github/golem-forge.yml": settings },
  }));
  world = await startStories({ repositories: [{ ...forgeRepository, commits }] });
  await world.start();
});
afterAll(() => world.close());

const box = /^- \[ \] Approve `\w+` exactly as shown$/m;

/** A story whose worker asks to delete the readme. */
async function requested(title: string) {
  const script = byTurn(call("delete_file", { path: "README.md" }), { text: "It is gone." });
  const story = world.open({ title, script });
  story.comment("/run fixer");
  return { story, request: await story.botComment(box) };
}

/** Resolves when the request is as the app posted it. */
function restored(story: Story, { id, body }: { id: number; body: string }): Promise<true> {
  return story.until(
    ({ comments }) => comments.find((one) => one.id === id)?.body === body || undefined,
    "the request as it was",
  ) as Promise<true>;
}

const tick = (body: string) => body.replace("- [ ] ", "- [x] ");

test("ticking the box of a request approves exactly what it shows, by someone who may approve", async () => {
  const { story, request } = await requested("Tick it");

  world.github.as("contributor").editComment(request.id, tick(request.body));
  await story.botComment(/contributor may not approve here/);
  await restored(story, request);
  world.github.as("maintainer").editComment(request.id, tick(request.body).replaceAll("\n", "\r\n"));

  await story.botComment(/✅ Approved by maintainer/);
  await story.botComment(/It is gone\./);
  expect(story.requests).toHaveLength(2);
});

test("an edit that changes anything else approves nothing, and only answers to the request that is posted again count", async () => {
  const { story, request } = await requested("Change it");
  const maintainer = world.github.as("maintainer");

  maintainer.editComment(request.id, tick(request.body).replace("README.md", "LICENSE"));
  const again = await story.until(
    ({ comments }) => comments.find(({ id, body }) => id > request.id && box.test(body)),
    "the request in a new comment",
  );
  const id = /\/approve (\w+)/.exec(again.body)?.[1];
  await story.botComment(new RegExp(`The request \`${id}\` of \\*\\*fixer\\*\\* was edited here`));
  expect(again.body).toBe(request.body);
  expect(story.requests).toHaveLength(1);

  story.comment(`/approve ${id}`);
  await story.botComment(/It is gone\./);
});

test("an approval does not count while the comment with the request is not as it was posted", async () => {
  const { story, request } = await requested("Answer what is not ours");
  const id = /\/approve (\w+)/.exec(request.body)?.[1];

  // Like an edit whose delivery has not arrived.
  Object.assign(world.github.repository().comments.get(request.id) ?? {}, {
    body: request.body.replace("README.md", "LICENSE"),
  });
  story.comment("/approve");
  await story.botComment(
    new RegExp(`request ${id} was edited or deleted after it was posted, so nothing was approved`),
  );
  const again = await story.until(
    ({ comments }) => comments.find(({ id, body }) => id > request.id && box.test(body)),
    "the request in a new comment",
  );
  expect(story.requests).toHaveLength(1);

  expect(again.body).toBe(request.body);
  story.comment("/approve");
  await story.botComment(/It is gone\./);
});

test("a tool command is confirmed only while the comment that shows the call is as it was posted", async () => {
  const write = call("write_file", { path: "NOTES.md", content: "One more.\n" });
  const story = world.open({ title: "Push it by hand", script: byTurn(write, { text: "It is written." }) });
  story.comment("/run fixer");
  await story.botComment(/It is written\./);
  story.comment("/git_push");
  const shown = await story.botComment(/asks before it runs/);
  const command = /^\/tool git_push .*$/m.exec(shown.body)?.[0] ?? "";

  world.github.as("maintainer").editComment(shown.id, shown.body.replace("NOTES.md", "LICENSE"));
  story.comment(command);
  await story.botComment(/The comment that showed this call was edited or deleted, so it is shown again\./);

  story.comment(command);
  await story.botComment(/`git_push`, run by maintainer/);
});
