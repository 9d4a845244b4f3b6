import { describe, expect, test, vi } from "vitest";
import type { Approval } from "#domain/approval.ts";
import { type RunSpec, shortId } from "#domain/run.ts";
import { callModel } from "#runtime/effects/call-model.ts";
import { reviewCalls } from "#runtime/effects/tool-calls.ts";
import { type EffectWorldOptions, effectWorld } from "../../support/effect-world.ts";
import { scriptedModels } from "../../support/scripted-models.ts";
import { sampleApproval, sampleEffect, sampleRun } from "../../support/store-samples.ts";
import { aTool } from "../../support/toolbox-world.ts";

const write = aTool({ name: "write_file", needsApproval: true });
const args = { path: "README.md" };
const call = { callId: "call-1", tool: "write_file", args };
const answered = {
  type: "model.answered" as const,
  text: "",
  messages: [],
  usage: { inputTokens: 1, outputTokens: 1 },
  finishReason: "tool-calls" as const,
  lastSeenId: 0,
};

/** A run whose model asked for these calls. */
async function asked(calls = [call], options: EffectWorldOptions = {}) {
  const made = await effectWorld({ tools: [aTool(), write], ...options });
  await made.append({ ...answered, calls });
  const review = () => made.perform(reviewCalls(made.services), made.effect({ kind: "calls.review" }));
  return { ...made, review };
}

test("each call of an answer gets a verdict, in order, and only those that ask get a request", async () => {
  const { review } = await asked([
    { callId: "c1", tool: "read_file", args },
    { ...call, callId: "c2" },
    { callId: "c3", tool: "read_file", args: { path: 1 as unknown as string } },
  ]);

  const { events, approvals } = await review();

  const id = shortId("r1/1/c2", 4);
  expect(events).toMatchObject([
    {
      runId: "r1",
      event: {
        type: "calls.reviewed",
        verdicts: [
          { kind: "allow", callId: "c1", tool: "read_file" },
          { kind: "ask", callId: "c2", tool: "write_file", approvalId: id },
          { kind: "refuse", callId: "c3", tool: "read_file" },
        ],
      },
    },
  ]);
  expect(approvals).toEqual([
    expect.objectContaining({
      ...{ id, runId: "r1", rootId: "r1", callId: "c2", tool: "write_file", toolName: "write_file", status: "pending" },
      ...{ requestedAt: 10_000, expiresAt: 11_000, approvers: "Anyone with write access" },
      quorums: [{ who: "Anyone with write access", required: 1, by: [] }],
    }),
  ]);
  expect(approvals?.[0]).not.toHaveProperty("accounts");
  expect(approvals?.[0]).not.toHaveProperty("hasCheckbox");
});

test("a request names who may approve, remembers their account ids, and has a box if the settings say so", async () => {
  const settings = "approve_by_checkbox: true\napprovals: [{ people: [mia], required: 1 }]";
  const { review, run } = await asked([call], { settings, repositoryId: 11 });
  vi.spyOn(run.repository, "findAccount").mockResolvedValue({ login: "mia", id: 3 });

  const { approvals } = await review();

  expect(approvals).toMatchObject([
    { repositoryId: 11, approvers: "@mia", quorums: [{ who: "@mia" }], accounts: { mia: 3 }, hasCheckbox: true },
  ]);
});

test("a request gets a longer id where the short one is in use", async () => {
  const { review, store } = await asked();
  await store.ingest({ events: [], effects: [sampleEffect("r1", "k")] });
  await store.completeEffect({ runId: "r1", key: "k", approvals: [sampleApproval("r1", shortId("r1/1/call-1", 4))] });

  expect((await review()).approvals).toMatchObject([{ id: shortId("r1/1/call-1", 5) }]);
});

test("a request has the tool's own name and its aliases, which rules may use, and the name that the model used", async () => {
  const tools = [{ ...write, aliases: ["create_file"] }];
  const { review } = await asked([{ ...call, tool: "create_file" }], { tools });

  const { approvals } = await review();

  expect(approvals).toMatchObject([{ tool: "create_file", toolName: "write_file", toolAliases: ["create_file"] }]);
});

test("a call gets no request without a free id, and a run without an answer has nothing to review", async () => {
  const { review, store } = await asked();
  const { perform, services, effect } = await effectWorld();
  vi.spyOn(store, "findApproval").mockResolvedValue(sampleApproval("r1", "a1"));

  await expect(review()).rejects.toThrow("No short id is free");
  await expect(perform(reviewCalls(services), effect({ kind: "calls.review" }))).rejects.toThrow("no answer to review");
});

test.each<[string, Partial<Approval>, Partial<RunSpec>, string]>([
  ["covers an equal call", {}, {}, "allow"],
  ["covers nothing once it has expired", { expiresAt: 10_000 }, {}, "ask"],
  ["covers nothing once it was revoked", { status: "revoked" }, {}, "ask"],
  ["covers nothing of another run", { runId: "r2" }, { rootId: "r1", parentId: "r1" }, "ask"],
  ["covers nothing if it was for once", { remember: "none" }, {}, "ask"],
])("an approval for the session %s", async (_, change, other, kind) => {
  const { review, store } = await asked();
  const [first] = (await review()).approvals ?? [];
  await store.ingest({ run: sampleRun("r2", [], other), events: [] });
  await store.ingest({ events: [], effects: [sampleEffect("r1", "k")] });
  const approval = { ...sampleApproval("r1", "s1"), ...first, id: "s1", status: "used", remember: "session" } as const;
  await store.completeEffect({ runId: "r1", key: "k", approvals: [{ ...approval, ...change }] });

  const { events } = await review();

  expect(events).toMatchObject([{ event: { verdicts: [{ kind, ...(kind === "allow" && { approvalId: "s1" }) }] } }]);
});

test("a call that asks and is too long to be shown is refused, with its length", async () => {
  const content = "x".repeat(2_000);
  const preview = () => ({ sections: [{ kind: "text" as const, title: "Text", text: content }] });
  const reads = { callId: "call-2", tool: "read_file", args };
  const { services, perform, effect } = await asked([call, reads], { tools: [aTool(), { ...write, preview }] });
  const frontEnd = { ...services.frontEnd, canShow: () => false };

  const { events, approvals } = await perform(reviewCalls({ ...services, frontEnd }), effect({ kind: "calls.review" }));

  expect(approvals).toEqual([]);
  const error = { code: "TOO_LARGE", message: expect.stringContaining("too long to show: 2,020 characters") };
  expect(events).toMatchObject([{ event: { verdicts: [{ kind: "refuse", result: { error } }, { kind: "allow" }] } }]);
});

describe("the review of an answer that was not stored yet", () => {
  const edit = aTool({ name: "edit_file", needsApproval: ({ path }: { path: string }) => path === ".env" });

  /** Returns the events of an answer with these calls, given by name and path. */
  async function answerTo(calls: [string, string][], options: EffectWorldOptions = {}) {
    const made = await effectWorld({ tools: [aTool(), edit, write], ...options });
    const models = scriptedModels([{ calls: calls.map(([name, path]) => ({ name, args: { path } })) }]);
    const handler = callModel({ ...made.services, models, observer: { modelCalled: () => {} } });
    const { events = [] } = await made.perform(handler, made.effect({ kind: "model.call" }));
    return events.map(({ event }) => event);
  }

  test("the review of an answer that was not stored yet is part of the same result", async () => {
    const events = await answerTo([
      ["edit_file", "a.ts"],
      ["unknown_tool", "a.ts"],
      ["read_file", "b.ts"],
    ]);

    const kinds = ["allow", "refuse", "allow"].map((kind, index) => ({ kind, callId: `call-0-${index}` }));
    expect(events).toMatchObject([{ type: "model.answered" }, { type: "calls.reviewed", verdicts: kinds }]);
  });

  test.each([
    ["asks", "edit_file", ".env"],
    ["always asks", "write_file", "a.ts"],
  ])("the review is left to its own effect if a call %s", async (_, tool, path) => {
    const events = await answerTo([
      ["read_file", "b.ts"],
      [tool, path],
    ]);

    expect(events).toMatchObject([{ type: "model.answered" }]);
  });

  test("the review is left to its own effect if the process stops, and the answer is kept", async () => {
    const stopping = new AbortController();
    const needsApproval = () => {
      stopping.abort(new Error("The process is stopping."));
      return false;
    };
    const { services, run, effect } = await effectWorld({ tools: [{ ...edit, needsApproval }] });
    const models = scriptedModels([{ calls: [{ name: "edit_file", args }] }]);
    const handler = callModel({ ...services, models, observer: { modelCalled: () => {} } });

    const { events } = await handler.perform(effect({ kind: "model.call" }), run, stopping.signal);

    expect(events).toMatchObject([{ event: { type: "model.answered" } }]);
  });
});

test("a review that is interrupted has no result", async () => {
  const interrupt = new AbortController();
  const needsApproval = () => {
    interrupt.abort(new Error("The run was interrupted."));
    return true;
  };
  const { services, effect, run } = await asked([call], { tools: [{ ...write, needsApproval }] });

  const review = reviewCalls(services).perform(effect({ kind: "calls.review" }), run, interrupt.signal);

  await expect(review).rejects.toThrow("The run was interrupted.");
});

test("calls that cannot be reviewed are refused with the reason", async () => {
  const { services, effect, run } = await asked();
  const fail = (error: unknown) => reviewCalls(services).onFailure(effect({ kind: "calls.review" }), run, error);

  for (const [error, reason] of [
    [new Error("The disk is full."), "The disk is full."],
    ["?", "unknown reason"],
  ] as const) {
    const message = `This call could not be reviewed: ${reason}`;
    expect(await fail(error)).toEqual({
      events: [
        {
          runId: "r1",
          event: {
            type: "calls.reviewed",
            verdicts: [
              {
                kind: "refuse",
                callId: "call-1",
                tool: "write_file",
                result: {
                  llmContent: `Error: ${message}`,
                  value: { kind: "text", content: message },
                  error: { type: "system_error", code: "UNAVAILABLE", message },
                },
              },
            ],
          },
        },
      ],
    });
  }
});
