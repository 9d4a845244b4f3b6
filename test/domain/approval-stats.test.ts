import { expect, test } from "vitest";
import { approvalStats, describeApprovalStats } from "#domain/approval.ts";
import { sampleApproval } from "../support/store-samples.ts";

test("counts requests, and the seconds from being shown to the answer", () => {
  const stats = approvalStats([
    sampleApproval("r1", "a1", { requestedAt: 1_000, shownAt: 5_000, decidedAt: 15_000 }),
    sampleApproval("r1", "a2", { requestedAt: 1_000, decidedAt: 21_000 }),
    sampleApproval("r1", "a3"),
  ]);

  expect(stats).toEqual({ requested: 3, answered: 2, meanSecondsToAnswer: 15 });
  expect(describeApprovalStats(stats)).toBe("3 approvals requested, 2 answered after 15 s on average");
  expect(describeApprovalStats(approvalStats([]))).toBeUndefined();
});
