import type { ModelMessage } from "ai";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { initialTransition, transition } from "xstate";
import type { LoggedEvent, RunEvent } from "#domain/events.ts";
import { UnreadableDataError } from "#domain/stored-data.ts";
import { Limits } from "#domain/worker.ts";
import { workerMachine } from "#machines/worker-machine.ts";
import { buildTranscript, sizeOfAll, sizeOfTranscript } from "#runtime/model/transcript.ts";
import { propertyRuns } from "../../support/property-runs.ts";

const usage = { inputTokens: 1, outputTokens: 1 };

function message(text: string): RunEvent {
  return { type: "message.received", kind: "prompt", text, by: "ada" };
}

function answered(text: string, callIds: string[] = [], seen = 0): RunEvent {
  const content = [
    { type: "text", text },
    ...callIds.map((toolCallId) => ({ type: "tool-call", toolCallId, toolName: "t", input: {} })),
  ];
  const calls = callIds.map((callId) => ({ callId, tool: "t", args: {} }));
  return {
    type: "model.answered",
    text,
    calls,
    messages: [{ role: "assistant", content }],
    usage,
    finishReason: "stop",
    lastSeenId: seen,
  };
}

function finished(callId: string, text = "ok"): RunEvent {
  return {
    type: "tool.finished",
    callId,
    tool: "t",
    result: { llmContent: text, value: { kind: "text", content: text } },
  };
}

function invoked(text: string, failed = false): RunEvent {
  const error = { type: "system_error" as const, code: "TIMEOUT" as const, message: text };
  const result = { llmContent: text, value: { kind: "text" as const, content: text }, ...(failed && { error }) };
  return { type: "tool.invoked", callId: "i1", tool: "git_push", by: "ada", args: { branch: "b" }, result };
}

function logOf(...events: RunEvent[]): LoggedEvent[] {
  return events.map((event, index) => ({ id: index + 1, runId: "r", at: 0, event }));
}

function roles(messages: ModelMessage[]): string[] {
  return messages.map(({ role }) => role);
}

test("results are in the order of the calls, not in the order in which the calls finished", () => {
  const messages = buildTranscript(
    logOf(message("go"), answered("", ["a", "b"], 1), finished("b", "second"), finished("a", "first")),
  );

  expect(roles(messages)).toEqual(["user", "assistant", "tool"]);
  expect(texts(messages[2])).toEqual(["first", "second"]);
});

test("a message that arrives while tools run comes after their results", () => {
  const messages = buildTranscript(logOf(message("go"), answered("", ["a"], 1), message("use tabs"), finished("a")));

  expect(roles(messages)).toEqual(["user", "assistant", "tool", "user"]);
});

test("a message that arrives while the model is thinking comes after its answer", () => {
  const messages = buildTranscript(logOf(message("go"), message("wait, use tabs"), answered("done", [], 1)));

  expect(messages.map(({ content }) => JSON.stringify(content))).toEqual([
    '"go"',
    expect.stringContaining("done"),
    '"wait, use tabs"',
  ]);
});

test("a denial with a reason reaches the model as the result of its call", () => {
  const denied: RunEvent = {
    type: "approval.denied",
    approvalId: "k1",
    callId: "a",
    by: "ada",
    reason: "not on a Friday",
  };
  const messages = buildTranscript(logOf(message("go"), answered("", ["a"], 1), denied));

  expect(JSON.stringify(messages.at(-1))).toContain("@ada denied this call for this reason: not on a Friday");
});

test("an answer to a question that is no longer open is not the result of a later call with the same id", () => {
  const reply = (step: number, text: string): RunEvent => ({
    type: "question.answered",
    callId: "a",
    step,
    text,
    by: "ada",
  });
  const stopped: RunEvent[] = [message("go"), answered("Which?", ["a"], 1), { type: "run.stop", by: "ada" }];
  const resumed: RunEvent[] = [{ type: "run.resume", by: "ada" }, answered("Sure?", ["a"], 4)];

  const log = logOf(...stopped, ...resumed, reply(1, "the red one"), reply(2, "yes"));

  expect(roles(buildTranscript(log.slice(0, -1))).at(-1)).toBe("assistant");
  expect(JSON.stringify(buildTranscript(log).at(-1))).toContain("@ada answered: yes");
});

test("calls interrupted by a stop are answered as interrupted, and the model learns that the run was resumed", () => {
  const messages = buildTranscript(
    logOf(
      message("go"),
      answered("", ["a", "b"], 1),
      finished("a"),
      { type: "run.stop", by: "ada" },
      { type: "run.resume", by: "ada" },
    ),
  );

  expect(roles(messages)).toEqual(["user", "assistant", "tool", "user"]);
  expect(JSON.stringify(messages[2])).toContain('"type":"interrupted"');
});

test("an answer in a format this release cannot read is reported, and not sent to the model", () => {
  const newer = { ...answered("hi", [], 1), messages: [{ role: "oracle", content: "hi" }] };

  expect(() => buildTranscript(logOf(message("go"), newer))).toThrow(UnreadableDataError);
});

describe("a call of a person", () => {
  test("a call of a person is shown with its arguments and its result, marked as untrusted, after the results of running calls", () => {
    const messages = buildTranscript(
      logOf(message("go"), answered("", ["a"], 1), invoked("Pushed abc1234."), finished("a")),
    );

    expect(roles(messages)).toEqual(["user", "assistant", "tool", "user"]);
    expect(messages[3]?.content).toMatch(/^@ada ran git_push with \{"branch":"b"\}\. It succeeded/);
    expect(messages[3]?.content).toMatch(/<untrusted id="\w+" source="the result of git_push">\nPushed abc1234\.\n/);
  });

  test("a call of a person is shown as failed when it failed, and shortened when it is long", () => {
    const messages = buildTranscript(logOf(message("go"), invoked("x".repeat(100_000), true)));

    expect(messages[1]?.content).toContain("It failed");
    expect(String(messages[1]?.content).length).toBeLessThan(10_000);
  });
});

describe("any sequence of events", () => {
  const eventName = fc.constantFrom(
    "message",
    "answer0",
    "answer1",
    "answer2",
    "review",
    "finishA",
    "finishB",
    "deny",
    "expire",
    "invoke",
    "stop",
    "resume",
    "fail",
    "retry",
  );

  test("any sequence of events gives every call exactly one result directly after it, so that a provider accepts the conversation", () => {
    fc.assert(
      fc.property(fc.array(eventName, { maxLength: 40 }), (names) => {
        const log = logFrom(names);
        const messages = buildTranscript(log);

        messages.forEach((current, index) => {
          const calls = idsOf(current, "tool-call");
          const results = idsOf(messages[index + 1], "tool-result");
          if (calls.length > 0 && index + 1 < messages.length) expect(results).toEqual(calls);
          if (current.role === "tool") expect(idsOf(messages[index - 1], "tool-call").length).toBeGreaterThan(0);
        });
        const isOpen = messages.at(-1)?.role === "assistant" && idsOf(messages.at(-1), "tool-call").length > 0;
        const shown = messages.filter(({ content }) => String(content).startsWith("@ada ran git_push")).length;
        const ran = log.filter(({ event }) => event.type === "tool.invoked").length;
        if (isOpen) expect(shown).toBeLessThanOrEqual(ran);
        else expect(shown).toBe(ran);
      }),
      { numRuns: propertyRuns(500) },
    );
  });

  test("a transcript is the same whether it grew event by event or was read at once", () => {
    fc.assert(
      fc.property(fc.array(eventName, { maxLength: 40 }), fc.nat(), (names, compactedAt) => {
        const log = withSummary(logFrom(names), compactedAt);
        const growing: LoggedEvent[] = [];
        for (const event of log) {
          growing.push(event);
          const messages = buildTranscript(growing);
          expect(messages).toEqual(buildTranscript([...growing]));
          expect(sizeOfTranscript(growing)).toBe(sizeOfAll(messages));
        }
      }),
      { numRuns: propertyRuns(100) },
    );
  });

  test("a transcript is built forward: what was read before is not read again", () => {
    const read: number[] = [];
    const steps = Array.from({ length: 50 }, (_, step) => [answered("", [`c${step}`]), finished(`c${step}`)]).flat();
    const log = logOf(message("go"), ...steps).map(({ event, ...logged }) => ({
      ...logged,
      get event() {
        read.push(logged.id);
        return event;
      },
    }));
    const growing = log.slice(0, 100);
    buildTranscript(growing);
    read.length = 0;
    growing.push(...log.slice(100));
    buildTranscript(growing);

    expect(new Set(read)).toEqual(new Set([101]));
  });
});

/** Only events that the machine accepts are in the log. Ids of calls are repeated in later turns, as some providers do. */
function logFrom(names: string[]): LoggedEvent[] {
  let [state] = initialTransition(workerMachine, { mode: "chat", limits: Limits.parse({}) });
  const log: LoggedEvent[] = [];
  for (const event of [message("go"), opened, ...names.map((name) => toEvent(name, log.at(-1)?.id ?? 0))]) {
    if (!state.can(event)) continue;
    [state] = transition(workerMachine, state, event);
    log.push({ id: log.length + 1, runId: "r", at: 0, event });
  }
  return log;
}

/** The log with a summary at its end, of everything up to one of its events. */
function withSummary(log: LoggedEvent[], at: number): LoggedEvent[] {
  const throughId = log[at % log.length]?.id ?? 0;
  const event: RunEvent = { type: "conversation.compacted", throughId, summary: "So far, so good.", usage };
  return [...log, { id: log.length + 1, runId: "r", at: 0, event }];
}

const opened: RunEvent = { type: "sandbox.opened", commit: "c".repeat(40), branch: "main" };

function toEvent(name: string, seen: number): RunEvent {
  switch (name) {
    case "message":
      return message("hm");
    case "answer0":
      return answered("done", [], seen);
    case "answer1":
      return answered("", ["a"], seen);
    case "answer2":
      return answered("", ["a", "b"], seen);
    case "review":
      return {
        type: "calls.reviewed",
        verdicts: [
          { kind: "ask", callId: "a", tool: "t", answeredBy: "tool", approvalId: "k1" },
          { kind: "allow", callId: "b", tool: "t", answeredBy: "tool" },
        ],
      };
    case "finishA":
      return finished("a");
    case "finishB":
      return finished("b");
    case "deny":
      return { type: "approval.denied", approvalId: "k1", callId: "a", by: "ada" };
    case "expire":
      return { type: "approval.expired", approvalId: "k1", callId: "a" };
    case "invoke":
      return invoked("ok");
    case "stop":
      return { type: "run.stop", by: "ada" };
    case "resume":
      return { type: "run.resume", by: "ada" };
    case "fail":
      return { type: "model.failed", reason: "busy", retryable: true };
    default:
      return { type: "timer.due", timer: "retry" };
  }
}

function idsOf(message: ModelMessage | undefined, type: string): string[] {
  if (!message || typeof message.content === "string") return [];
  return message.content.flatMap((part) => (part.type === type && "toolCallId" in part ? [part.toolCallId] : []));
}

function texts(message: ModelMessage | undefined): string[] {
  if (message?.role !== "tool") return [];
  return message.content.flatMap((part) =>
    part.type === "tool-result" && part.output.type === "text" ? [part.output.value] : [],
  );
}
