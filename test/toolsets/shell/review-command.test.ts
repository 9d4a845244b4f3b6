import { expect, test } from "vitest";
import { reviewCommand } from "#toolsets/shell/review-command.ts";

test("a script that the parser would not finish asks", async () => {
  const policy = { rules: [], otherwise: "ask" as const };

  const reviews = await Promise.all(
    ["(($`b`))", "=$((?(do >a", `(${"(".repeat(900)}`].map((script) => reviewCommand(script, policy)),
  );

  expect(reviews.map(({ decision }) => decision)).toEqual(["ask", "ask", "ask"]);
  expect(await reviewCommand("ls", { ...policy, reading: "preApproved" })).toMatchObject({ decision: "preApproved" });
});
