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

test("an edit that changes anything else approves nothing, and the request is restored", async () => {
  const { story, request } = await requested("Change it");
  const maintainer = world.github.as("maintainer");

  maintainer.editComment(request.id, tick(request.body).replace("README.md", "LICENSE"));
  await restored(story, request);
  maintainer.editComment(request.id, `Approved.\n${request.body}`);
  await restored(story, request);
  maintainer.comment(story.issue.number, "/status");
  await story.botComment(/\*\*fixer\*\* is waiting for approval[\s\S]*reply%2F/);

  expect(story.requests).toHaveLength(1);
});
