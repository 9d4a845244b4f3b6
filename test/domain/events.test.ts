import { expect, test } from "vitest";
import { isTextMediaType, RunEvent } from "#domain/events.ts";

const usage = { inputTokens: 3, outputTokens: 2, cachedInputTokens: 1 };
const by = { by: "ada", via: "page" as const };
const person = { by: "ada", byId: 1 };
const error = {
  ...{ type: "user_error" as const, code: "CONFLICT" as const, message: "It exists.", suggestion: "Choose another." },
  details: { path: "a.txt" },
};
const result = { llmContent: "ok", value: { kind: "text" as const, content: "ok" }, error, durationMs: 5 };

/** An event of each type, with all its fields. */
const events: { [Type in RunEvent["type"]]: Extract<RunEvent, { type: Type }> } = {
  "message.received": {
    ...{ type: "message.received", kind: "context", text: "Hello.", ...person, via: "page", thread: 8 },
    authors: [{ login: "mia", id: 3 }, { login: "tom" }],
  },
  "sandbox.opened": { type: "sandbox.opened", commit: "c".repeat(40), branch: "main" },
  "guidance.read": { type: "guidance.read", files: [] },
  "sandbox.failed": { type: "sandbox.failed", reason: "It is too large." },
  "model.answered": {
    ...{ type: "model.answered", text: "I look.", messages: [{ role: "assistant" }], searches: ["rain"], usage },
    calls: [{ callId: "c1", tool: "read_file", args: { path: "a" }, parseError: "It is no JSON." }],
    ...{ cost: 0.1, finishReason: "stop", schemaProblem: "severity is missing.", lastSeenId: 7 },
  },
  "conversation.compacted": { type: "conversation.compacted", throughId: 7, summary: "It looked.", usage, cost: 0.1 },
  "model.failed": { type: "model.failed", reason: "No.", retryable: true, retryAfterMs: 9, usage, cost: 0.1 },
  "calls.reviewed": {
    type: "calls.reviewed",
    verdicts: [
      { kind: "allow", callId: "c1", tool: "read_file", answeredBy: "tool", approvalId: "a1" },
      { kind: "ask", callId: "c2", tool: "write_file", answeredBy: "tool", approvalId: "a2" },
      { kind: "refuse", callId: "c3", tool: "deploy", result },
    ],
  },
  "approval.granted": {
    ...{ type: "approval.granted", approvalId: "a1", callId: "c1", ...person, via: "page", args: { path: "b" } },
  },
  "approval.denied": {
    ...{ type: "approval.denied", approvalId: "a1", callId: "c1", ...person, via: "page", reason: "Not now." },
  },
  "approval.expired": { type: "approval.expired", approvalId: "a1", callId: "c1" },
  "question.answered": { type: "question.answered", callId: "c1", step: 2, text: "Yes.", ...person, via: "page" },
  "tool.finished": { type: "tool.finished", callId: "c1", tool: "read_file", result },
  "pull_request.reviewed": { type: "pull_request.reviewed", ...person, requestsChanges: true, text: "Not yet." },
  "checks.completed": {
    ...{ type: "checks.completed", commit: "c".repeat(40), passed: false, failedOnBase: true, text: "It broke." },
    digest: "d1",
  },
  "pull_request.closed": { type: "pull_request.closed", number: 8, merged: true, by: "ada", commit: "c".repeat(40) },
  "pull_request.reopened": { type: "pull_request.reopened", number: 8, by: "ada" },
  "tool.invoked": { type: "tool.invoked", callId: "by-1", tool: "undo_push", ...person, args: { path: "a" }, result },
  "child.finished": {
    ...{ type: "child.finished", callId: "c1", childId: "r2", outcome: { kind: "answered", text: "Done." }, usage },
    cost: 0.1,
  },
  "run.stop": { type: "run.stop", ...by, reason: "The repository was transferred." },
  "run.resume": { type: "run.resume", ...by },
  "run.cancel": { type: "run.cancel", ...by },
  "run.exit": { type: "run.exit", ...by },
  "retry.requested": { type: "retry.requested", ...by },
  "conversation.cleared": { type: "conversation.cleared", ...by },
  "model.changed": { type: "model.changed", model: "openai:gpt-6", ...by },
  "cost_limit.raised": { type: "cost_limit.raised", limit: 7, ...by },
  "timer.due": { type: "timer.due", timer: "retry" },
};

test.each(Object.entries(events))("no field of an event is lost when it is stored and read: %s", (_, event) => {
  expect(RunEvent.parse(JSON.parse(JSON.stringify(event)))).toEqual(event);
});

test("an event of an unknown type, or without a field that it needs, cannot be read", () => {
  for (const [type, { type: _, ...fields }] of Object.entries(events)) {
    expect(RunEvent.safeParse({ type: `${type}.later`, ...fields }).success).toBe(false);
    expect(RunEvent.safeParse({ type }).success).toBe(false);
  }
});

test("checks of an earlier release count as failed on the base branch only if they say so", () => {
  const { failedOnBase: _, ...earlier } = events["checks.completed"];

  expect(RunEvent.parse(earlier)).toMatchObject({ failedOnBase: false });
});

test.each([
  ["text/plain", true],
  ["application/json", true],
  ["image/svg+xml", true],
  ["application/yaml; charset=utf-8", true],
  ["TEXT/HTML", true],
  ["image/png", false],
  ["application/jsonlines", false],
  ["application/x-text/plain", false],
])("an attachment of type %s is read as text: %s", (mediaType, isText) => {
  expect(isTextMediaType(mediaType)).toBe(isText);
});
