import { describe } from "vitest";
import { parseMention, parseThreadCommand } from "#bot/commands/thread-command.ts";
import { findAttachments } from "#bot/github/attachments.ts";
import { findLinkedIssues } from "#bot/github/conversation.ts";
import { blockquote, code, codeBlock, inline } from "#bot/render/markdown.ts";
import { isReadable } from "#bot/render/render-request.ts";
import { parseCodeowners } from "#config/codeowners.ts";
import { runAtOnce } from "#domain/async-work.ts";
import { parseTrailers, withSection, withTrailers } from "#domain/commit-trailers.ts";
import { ToolError, UserError } from "#domain/errors.ts";
import { textPreview } from "#domain/preview.ts";
import { parseWorker } from "#domain/worker.ts";
import { pathProblem } from "#executors/validate-changes.ts";
import { diffLines, splitWithEndings } from "#sandbox/diff-file.ts";
import { summarizeTests } from "#toolsets/code/test-output/summarize-tests.ts";
import type { TestReport } from "#toolsets/code/test-runner.ts";
import { applyHunks } from "#toolsets/filesystem/apply-hunks.ts";
import { isProtectedPath, namesPath } from "#toolsets/filesystem/file-changes.ts";
import { matchEdit } from "#toolsets/filesystem/match-edit.ts";
import { parsePatch } from "#toolsets/filesystem/parse-patch.ts";
import { describeReviewComment } from "#toolsets/github/pull-request.ts";
import { parseHunks } from "#toolsets/reviews/pull-request-diff.ts";
import { codeTerms, queryTerms } from "#toolsets/search/rank-files.ts";
import { parseRegex, RegexError } from "#toolsets/search/regex/parse-regex.ts";
import { interactiveProblem } from "#toolsets/shell/interactive-commands.ts";
import { truncateToTokens } from "#toolsets/tool-result.ts";
import { parseToolCommand } from "#ui/run-commands.ts";
import { testLinearTime } from "./support/linear-time.ts";

const reports: TestReport[] = [
  ...(["tap", "vitest", "jest", "mocha", "pytest", "unittest", "go", "cargo", "rspec", "minitest"] as const),
  ...(["maven", "gradle", "ctest", "plain"] as const),
];
const reviewComment = {
  ...{ id: 1, reviewId: 1, path: "a", startLine: null, line: 1, isOutdated: false, side: "RIGHT" as const },
  ...{ author: "mia", updatedAt: new Date(0), diffHunk: "@@ -0,0 +1 @@\n+total" },
};
/** Longer reports are read in a process that is killed when it takes too long. */
const maxReport = 100_000;

/** The functions outside src/text that read text from GitHub, repositories, models and programs. */
const functions: Record<string, (text: string) => unknown> = {
  parseThreadCommand,
  parseMention: (text) => parseMention(`@golem ${text}`, "golem"),
  parseToolCommand: (text) => parseToolCommand(`/tool ${text}`),
  inline: (text) => inline(text),
  code: (text) => code(text),
  codeBlock: (text) => codeBlock(text),
  quote: (text) => blockquote(text),
  parseCodeowners: (text) => parseCodeowners(text)("src/main.ts"),
  parseTrailers,
  withTrailers: (text) => withTrailers(text, { runId: "r", requestedBy: { login: "ada", id: 1 } }),
  findAttachments: (text) => findAttachments(text, { webUrl: "https://github.com" }),
  findLinkedIssues: (text) => findLinkedIssues(text, { owner: "o", repo: "r", webUrl: "https://github.com" }),
  isReadable: (text) => isReadable({ args: { text }, preview: textPreview(text) }),
  parseHunks,
  queryTerms,
  withSection: (text) => withSection(text, "evidence", text),
  parseWorker: (text) => parseWorker(`---\nname: x\n---\n${text}`, "x.worker"),
  pathProblem,
  splitWithEndings: (text) => runAtOnce(splitWithEndings(text)),
  diffLines: (text) => runAtOnce(diffLines(text, `${text.slice(1)}x`)),
  applyHunks: (text) => applyHunks(text, parsePatch("--- a\n+++ b\n@@ -1 +1 @@\n-x\n+y\n", "a")[0]?.hunks ?? [], "a"),
  matchEdit: (text) => matchEdit(text, { oldText: "absent\ntext", newText: "" }),
  parsePatch: (text) => parsePatch(text, "a"),
  codeTerms,
  // A pattern is one line.
  parseRegex: (text) => parseRegex(text.replaceAll("\n", "")),
  interactiveProblem,
  namesPath: (text) => namesPath(text, "src/main.ts"),
  // A path has no more bytes.
  isProtectedPath: (text) => isProtectedPath(text.slice(0, 4_096)),
  describeReviewComment: (body) => describeReviewComment({ ...reviewComment, body }, ""),
  truncateToTokens: (text) => truncateToTokens(text, 1_000),
  summarizeTests: (text) => reports.map((report) => summarizeTests(report, text.slice(0, maxReport), "")),
};

const fragments = [
  "not ok 1 - a\n",
  "# pass 1\n",
  "FAILED a::b - c\n",
  "___ a ___\n",
  "---- a stdout ----\n",
  "test result: ",
  "Tests run: 1, Failures: 0, Errors: 0, Skipped: 0\n",
  "1/1 Test #1: a ..",
];
fragments.push(
  "--- a\n+++ b\n",
  "@@ -1 +1 @@\n",
  "*** Update File: a\n",
  "diff --git a/a b/a\n",
  "+",
  "-a\n",
  "(?:",
  "(a|",
  "**/",
  "{a,",
  "```suggestion\n",
);

describe.each(Object.entries(functions))("%s takes linear time", (_, run) => {
  testLinearTime(
    (text) => {
      try {
        run(text);
      } catch (error) {
        if (!(error instanceof UserError || error instanceof ToolError || error instanceof RegexError)) throw error;
      }
    },
    fragments,
    5,
  );
});
