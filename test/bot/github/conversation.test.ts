import { expect, test } from "vitest";
import { findLinkedIssues } from "#bot/github/conversation.ts";

test.each([
  ["See #12 and (#13), GH-14.", [12, 13, 14]],
  ["octo/sums#5, Octo/Sums#6, octo/other#7, x/octo/sums#8", [5, 6]],
  ["https://github.com/octo/sums/issues/3 https://github.com/octo/sums/pull/4#discussion_r1", [3, 4]],
  ["https://github.com/octo/other/issues/3 https://evil.example/octo/sums/issues/4", []],
  ["a#1 &#39; ##2 #0 #1234567890 color: #123abc", []],
  ["#2 #1 #2", [2, 1]],
])("issues that %j names", (text, expected) => {
  expect(findLinkedIssues(text, { owner: "octo", repo: "sums", webUrl: "https://github.com" })).toEqual(expected);
});
