import { expect, test, vi } from "vitest";
import { Postponed } from "#runtime/effects/effect-handler.ts";
import { showStatus } from "#runtime/effects/post-to-thread.ts";
import { effectWorld } from "../../support/effect-world.ts";

/** Shows the status half an interval, or any other time, after the last edit. Resolves to the time it was postponed to. */
async function showAfter(sinceEditMs: number): Promise<number | "shown"> {
  const { store, services, clock, effect, perform, posts } = await effectWorld();
  vi.spyOn(store, "findPost").mockResolvedValue({ commentId: 1, updatedAt: clock.now - sinceEditMs });
  const result = await perform(showStatus(services), effect({ kind: "status.show" })).catch((error) => error);
  if (result instanceof Postponed) return result.until - clock.now;
  expect(posts.map(({ kind }) => kind)).toEqual(["status"]);
  return "shown";
}

test("the status is edited at most once in an interval", async () => {
  expect(await showAfter(200)).toBe(300);
  expect(await showAfter(500)).toBe("shown");
});

test("an edit whose time is in the future, after a clock was corrected, does not delay the next one", async () => {
  expect(await showAfter(-300_000)).toBe("shown");
});
