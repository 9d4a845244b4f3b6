import { describe, expect, test } from "vitest";
import {
  type Approval,
  type ApprovalSubject,
  answersOf,
  approvalDigest,
  approvalStats,
  canonicalJson,
  coversCall,
  describeApprovalStats,
  isRevocable,
} from "#domain/approval.ts";
import { type FileChange, type Preview, textPreview } from "#domain/preview.ts";
import { sampleApproval } from "../support/store-samples.ts";

const change: FileChange = {
  path: "a.txt",
  kind: "modified",
  oldMode: "100644",
  newMode: "100644",
  oldBlob: "0".repeat(40),
  newBlob: "1".repeat(40),
  size: 5,
};
const file = (changes: Partial<FileChange> = {}, diff = "+hello"): Preview => ({
  sections: [{ kind: "file", change: { ...change, ...changes }, diff }],
});

describe("canonical JSON", () => {
  test.each<[string, unknown, string]>([
    ["sorts keys at every level", { b: 1, a: { d: 2, c: 3 } }, '{"a":{"c":3,"d":2},"b":1}'],
    ["keeps the order of lists", [2, 1, [3]], "[2,1,[3]]"],
    ["omits undefined properties", { a: undefined, b: null }, '{"b":null}'],
    ["writes null for undefined items", [undefined, 1], "[null,1]"],
    ["writes null for undefined", undefined, "null"],
    ["writes null", null, "null"],
    ["escapes strings and keys", { 'a"': "\n" }, '{"a\\"":"\\n"}'],
    ["tells a list from an object", { 0: "a" }, '{"0":"a"}'],
  ])("%s", (_, value, text) => {
    expect(canonicalJson(value)).toBe(text);
  });
});

describe("digest of an approval", () => {
  const subject: ApprovalSubject = {
    runId: "r1",
    workerPath: "fixer",
    callId: "c1",
    tool: "write_file",
    args: { path: "a.txt", content: "hello" },
    baseCommit: "a".repeat(40),
    preview: { ...file(), bindings: { "commit of main": "1f00" } },
  };
  const digest = (changes: Partial<ApprovalSubject> = {}) => approvalDigest({ ...subject, ...changes });

  test("the digest of an approval is a SHA-256 in hex, and the same for the same subject", () => {
    expect(digest()).toMatch(/^[0-9a-f]{64}$/);
    expect(digest({ args: { content: "hello", path: "a.txt" } })).toBe(digest());
  });

  test.each<[string, Partial<ApprovalSubject>]>([
    ["the run", { runId: "r2" }],
    ["the worker", { workerPath: "fixer -> tester" }],
    ["the call", { callId: "c2" }],
    ["the tool", { tool: "delete_file" }],
    ["the arguments", { args: { path: "a.txt", content: "hello!" } }],
    ["the base commit", { baseCommit: "b".repeat(40) }],
    ["a file's new content", { preview: { ...subject.preview, ...file({ newBlob: "2".repeat(40) }) } }],
    ["a file's mode", { preview: { ...subject.preview, ...file({ newMode: "100755" }) } }],
    ["a binding", { preview: { ...file(), bindings: { "commit of main": "2f00" } } }],
    ["the preview as a whole", { preview: undefined }],
  ])("the digest of an approval binds %s", (_, changes) => {
    expect(digest(changes)).not.toBe(digest());
  });

  test("the digest of an approval does not bind the layout of a diff", () => {
    expect(digest({ preview: { ...subject.preview, ...file({}, "another layout") } })).toBe(digest());
  });

  test("the digest of an approval binds the texts of a preview", () => {
    expect(digest({ preview: textPreview("It writes.") })).not.toBe(digest({ preview: textPreview("It deletes.") }));
  });

  test("the digest of an approval with changed arguments binds the state that they start from, not the effect of the shown ones", () => {
    const changed = (preview: Preview | undefined) => digest({ argsChanged: true, preview });

    expect(changed(file({ newBlob: "2".repeat(40) }))).toBe(changed(file()));
    expect(changed(file({ oldBlob: "2".repeat(40) }))).not.toBe(changed(file()));
    expect(changed(file({ path: "b.txt" }))).not.toBe(changed(file()));
    expect(changed({ ...file(), bindings: { main: "1" } })).not.toBe(changed(file()));
    expect(changed(undefined)).not.toBe(changed(file()));
    expect(changed(file())).not.toBe(digest({ preview: file() }));
  });

  test("the digest of an approval with changed arguments binds all files that do not depend on the arguments", () => {
    const changed = (changes: Partial<FileChange>) =>
      digest({ argsChanged: true, preview: { ...file(changes), filesFixed: true } });

    expect(changed({ newBlob: "2".repeat(40) })).not.toBe(changed({}));
  });
});

describe("an approval for the session covers", () => {
  const approval = sampleApproval("r1", "a1", { remember: "session", preview: file() });
  const call = { tool: approval.tool, args: approval.args, preview: file() };

  test.each<[string, boolean, Partial<typeof call>, Partial<Approval>]>([
    ["an identical call", true, {}, {}],
    ["a call whose diff is laid out differently", true, { preview: file({}, "another layout") }, {}],
    ["no other tool", false, { tool: "delete_file" }, {}],
    ["no other arguments", false, { args: { path: "b.txt" } }, {}],
    ["no call with another effect", false, { preview: file({ newBlob: "2".repeat(40) }) }, {}],
    ["nothing when it was given once", false, {}, { remember: "none" }],
    ["nothing when it does not say so", false, {}, { remember: undefined }],
    ["nothing when its arguments were changed", false, {}, { changedArgs: approval.args }],
  ])("%s", (_, covered, changes, approvalChanges) => {
    expect(coversCall({ ...approval, ...approvalChanges }, { ...call, ...changes })).toBe(covered);
  });

  test("no call that is not shown completely", () => {
    const hidden: Preview = { sections: [{ kind: "hidden-file", change, reason: "binary" }] };

    expect(coversCall({ ...approval, preview: hidden }, { ...call, preview: hidden })).toBe(false);
  });

  test("a call without a preview", () => {
    expect(coversCall({ ...approval, preview: undefined }, { ...call, preview: undefined as never })).toBe(true);
  });
});

describe("the people who approved", () => {
  const answers = [{ by: "ada", byId: 1, at: 5 }];

  test.each<[string, Partial<Approval>, unknown]>([
    ["are those whose answers were kept", { answers, status: "approved", decidedBy: "mia" }, answers],
    [
      "are the person who decided, in an old approval",
      { status: "used", decidedBy: "mia", decidedById: 2, decidedAt: 7, via: "page" },
      [{ by: "mia", byId: 2, at: 7, via: "page" }],
    ],
    [
      "have no time in a very old one",
      { status: "approved", decidedBy: "mia" },
      [{ by: "mia", byId: undefined, at: 0, via: undefined }],
    ],
    ["are nobody while it is pending", { status: "pending" }, []],
    ["are nobody when it was denied", { status: "denied", decidedBy: "mia" }, []],
  ])("%s", (_, changes, people) => {
    expect(answersOf(sampleApproval("r1", "a1", changes))).toEqual(people);
  });
});

test.each<[Approval["status"], Approval["remember"], boolean]>([
  ["pending", undefined, false],
  ["approved", undefined, true],
  ["used", undefined, false],
  ["used", "none", false],
  ["used", "session", true],
  ["denied", "session", false],
  ["revoked", "session", false],
])("an approval that is %s and remembered for %s can be revoked as a whole: %s", (status, remember, revocable) => {
  expect(isRevocable(sampleApproval("r1", "a1", { status, remember }))).toBe(revocable);
});

test("the statistics count requests, answers and the seconds between being shown and answered", () => {
  const at = (changes: Partial<Approval>) => sampleApproval("r1", "a1", { requestedAt: 1_000, ...changes });
  const stats = (...approvals: Approval[]) => approvalStats(approvals);

  expect(stats()).toEqual({ requested: 0, answered: 0, meanSecondsToAnswer: undefined });
  expect(stats(at({}))).toEqual({ requested: 1, answered: 0, meanSecondsToAnswer: undefined });
  expect(stats(at({ shownAt: 3_000, decidedAt: 5_000 }), at({ decidedAt: 7_000 }), at({}))).toEqual({
    requested: 3,
    answered: 2,
    meanSecondsToAnswer: 4,
  });
  expect(stats(at({ shownAt: 9_000, decidedAt: 5_000 })).meanSecondsToAnswer).toBe(0);
});

test.each([
  [{ requested: 0, answered: 0, meanSecondsToAnswer: undefined }, undefined],
  [{ requested: 1, answered: 0, meanSecondsToAnswer: undefined }, "1 approval requested, 0 answered"],
  [{ requested: 2, answered: 1, meanSecondsToAnswer: 3.6 }, "2 approvals requested, 1 answered after 4 s on average"],
])("the statistics %j are described as %s", (stats, text) => {
  expect(describeApprovalStats(stats)).toBe(text);
});
