import { expect, test } from "vitest";
import { type BotWorld, botWorlds, eventTime } from "../../support/bot-world.ts";

const startWorld = botWorlds();

async function review(world: BotWorld, change: object = {}): Promise<void> {
  world.hub.onRequest(({ operation }) => (operation?.includes("/reviews/") ? { status: 200, body: [] } : undefined));
  const { installation, repository, sender } = world.commentPayload();
  await world.send(
    {
      action: "submitted",
      installation,
      repository,
      sender,
      pull_request: { number: 1 },
      review: {
        id: 5,
        state: "changes_requested",
        body: "Rename it.",
        user: sender,
        submitted_at: eventTime,
        ...change,
      },
    },
    { name: "pull_request_review" },
  );
}

const viaBot = { performed_via_github_app: { id: 99 } };

test("a review by someone with write access reaches the run", async () => {
  const world = await startWorld();

  await review(world);

  expect(world.runs.deliverReview.mock.calls[0]?.[1]).toMatchObject({
    by: "ada",
    review: { state: "changes_requested" },
  });
});

test("a review that another app submitted with a person's token reaches no run", async () => {
  const world = await startWorld();

  await review(world, viaBot);

  expect(world.runs.deliverReview).not.toHaveBeenCalled();
});

test("a review through another app is passed on where the deployment allows such comments", async () => {
  const world = await startWorld({ environment: { GOLEM_FORGE_ALLOW_APP_COMMENTS: "true" } });

  await review(world, viaBot);

  expect(world.runs.deliverReview).toHaveBeenCalledOnce();
});
