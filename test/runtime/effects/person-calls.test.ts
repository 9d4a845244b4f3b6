import fc from "fast-check";
import { describe, expect, test, vi } from "vitest";
import { z } from "zod";
import { BlockedError, OutageError, UserError } from "#domain/errors.ts";
import { LeaseLostError, withLease } from "#domain/work-context.ts";
import { PostponedError } from "#runtime/effects/effect-handler.ts";
import { invokeTool, runToolCommand, writeToolCommand } from "#runtime/effects/person-calls.ts";
import { confirmationName } from "#runtime/effects/post-to-thread.ts";
import type { ToolReply } from "#runtime/front-end.ts";
import type { EffectResult } from "#runtime/run-environment.ts";
import type { EffectOf } from "#runtime/runtime-effect.ts";
import type { Effect } from "#runtime/store/store.ts";
import { parseCommand } from "#ui/command.ts";
import { parseToolCommand } from "#ui/run-commands.ts";
import { type EffectWorldOptions, effectWorld } from "../../support/effect-world.ts";
import { propertyRuns } from "../../support/property-runs.ts";
import { sampleEffect } from "../../support/store-samples.ts";
import { aTool } from "../../support/toolbox-world.ts";

const manual = { mode: "manual" as const, label: "Push to Remote", category: "Git" };

/** The tool `git_push`, which people call, and which asks. */
function pushTool(change: Partial<ReturnType<typeof aTool>> = {}) {
  const execute = vi.fn((_args: { branch?: string }) => "pushed");
  const inputSchema = z.object({ branch: z.string().optional(), force: z.boolean().optional() });
  const preview = ({ branch }: { branch?: string }) => `It pushes to ${branch ?? "its branch"}.`;
  const name = "git_push";
  const tool = aTool({ name, inputSchema, execute, preview, needsApproval: true, manualExecution: manual, ...change });
  return { tool, execute };
}

/** A run with a tool of the worker and `git_push`, which people call. */
async function personWorld({ push = {}, ...options }: EffectWorldOptions & { push?: Partial<Tool> } = {}) {
  const { tool, execute } = pushTool(push);
  const made = await effectWorld({ tools: [aTool({ name: "write_file" }), tool], ...options });
  const handler = runToolCommand(made.services);
  const effectOf = (line: string, more: object = {}, changes: Partial<Effect> = {}) => {
    const command = parseToolCommand(line);
    const request = { kind: "command.run" as const, callId: "by-1", by: "ada", command, mayBeForeign: false, ...more };
    return made.effect(request, changes);
  };
  const command = (line: string, more: object = {}, changes: Partial<Effect> = {}) =>
    made.perform(handler, effectOf(line, more, changes));
  /** Shows a call that asks, as a comment of the thread, and returns what was shown. */
  const show = async (line: string) => {
    const reply = replyOf(await command(line));
    if (reply?.kind !== "confirm") throw new Error(`Expected a request to confirm, got ${JSON.stringify(reply)}`);
    await made.store.ingest({ events: [], effects: [sampleEffect("r1", "reply")] });
    const shown = { comments: [{ id: 50, digest: "d", updatedAt: 1 }], revision: 0 };
    const posts = [{ name: confirmationName("r1", reply.word), commentId: 50, shown }];
    await made.store.completeEffect({ runId: "r1", key: "reply", posts });
    return reply;
  };
  return { ...made, execute, handler, effectOf, command, show };
}
type Tool = ReturnType<typeof aTool>;

/** The reply that an effect requests; undefined for the result of the call. */
function replyOf({ effects }: EffectResult): ToolReply | undefined {
  return (effects?.[0]?.request as EffectOf<"tool.reply"> | undefined)?.reply;
}

describe("a command for a tool", () => {
  test("a command for a tool that does not ask runs it, is logged, and is answered with its result where it was given", async () => {
    const { command, execute } = await personWorld({ push: { needsApproval: false } });

    const result = await command("/tool git_push --branch main", { thread: 9, byId: 3 });

    expect(execute).toHaveBeenCalledExactlyOnceWith({ branch: "main" }, expect.anything());
    expect(result.effects).toEqual([
      {
        ...{ key: "k1/reply", runId: "r1", queue: "thread" },
        request: { kind: "tool.reply", callId: "by-1", reply: undefined, thread: 9 },
      },
    ]);
    expect(result.events).toMatchObject([
      {
        runId: "r1",
        event: {
          ...{ type: "tool.invoked", callId: "by-1", tool: "git_push", by: "ada", byId: 3, args: { branch: "main" } },
          result: { llmContent: expect.stringContaining("pushed") },
        },
      },
    ]);
  });

  test("a command for a tool that replaces what a child changed and handed over meanwhile says so", async () => {
    const made = await personWorld({ push: { needsApproval: false } });
    made.execute.mockImplementation(() => {
      made.changeFile("a.txt");
      return "pushed";
    });
    const { mergeAgain } = await made.command("/git_push");

    await made.finishChild("a.txt");

    const summary = expect.stringContaining("its changes to them were replaced by this call's: a.txt");
    const invoked = { type: "tool.invoked", by: "ada", result: { value: { summary } } };
    expect(await mergeAgain?.()).toMatchObject({ mergedWith: 1, events: [{ event: invoked }] });
  });

  test.each([
    [
      "an unknown tool, with the nearest one",
      "/tool git_psh",
      'Unknown tool "git_psh". Did you mean git_push? You can call: git_push.',
    ],
    [
      "a tool of the worker",
      "/tool write_file --path x",
      "write_file can only be called by the worker. You can call: git_push.",
    ],
    ["an unknown option, with the nearest one", "/git_push --brnch main", "Did you mean --branch?"],
    [
      "a wrong value",
      "/git_push --force maybe",
      'force must be yes or no, not "maybe".\n/tool git_push -i shows its options.',
    ],
    ["a value without its name", "/t git_push main", 'Give "main" with the name of an option'],
    ["a value after the name of the tool itself", "/git_push main", 'Give "main" with the name of an option'],
    ["a name of nothing, like no other bot's", "/make_coffee", 'Unknown tool "make_coffee". You can call'],
  ])("a command for a tool is refused with the reason: %s", async (_, line, sentence) => {
    const { command, handler, effectOf, run, execute } = await personWorld();

    const refused = await command(line).catch((error) => handler.onFailure(effectOf(line), run, error));

    expect(replyOf(refused)).toEqual({ kind: "refused", by: "ada", message: expect.stringContaining(sentence) });
    expect(refused).not.toHaveProperty("events");
    expect(execute).not.toHaveBeenCalled();
  });

  test("a command for a tool is refused where people can call nothing", async () => {
    const { command } = await personWorld({ push: { manualExecution: { mode: "llm" } } });

    expect(replyOf(await command("/make_coffee"))).toMatchObject({
      message: 'Unknown tool "make_coffee". This worker has no tools that people can call.',
    });
  });

  test("a command for a tool that may be meant for another bot is ignored, unless a tool has its name", async () => {
    const { command, handler, effectOf, run } = await personWorld();
    const foreign = { mayBeForeign: true };

    expect(await command("/retest", foreign)).toEqual({});
    expect(await handler.onFailure(effectOf("/retest", foreign), run, new UserError("No."))).toEqual({});
    expect(replyOf(await command("/Git_Push", foreign))).toMatchObject({ kind: "confirm", tool: "git_push" });
  });

  test("/tools lists the tools for people with label and category, and -i gives their forms", async () => {
    const { command } = await personWorld();

    const [list, short, form] = [
      replyOf(await command("/tools")),
      replyOf(await command("/tool")),
      replyOf(await command("/tool git_push -i")),
    ];

    expect(list).toMatchObject({
      kind: "list",
      tools: [{ name: "git_push", label: "Push to Remote", category: "Git" }],
    });
    expect(short).toEqual(list);
    const fields = expect.arrayContaining([expect.objectContaining({ name: "force", type: "boolean" })]);
    expect(form).toMatchObject({ kind: "form", tool: { name: "git_push", fields } });
  });

  test.each<[string, EffectWorldOptions, string]>([
    ["of someone who lost write access", { permission: async () => "read" }, "You need write access to ada/engine"],
    ["for a run that never opened its repository", { isOpened: false }, "never opened the repository"],
  ])("%s is refused", async (_, options, reason) => {
    const { command, handler, effectOf, run } = await personWorld(options);

    const error = await command("/tools").catch((thrown) => thrown);

    expect(error).toBeInstanceOf(UserError);
    expect(replyOf(await handler.onFailure(effectOf("/tools"), run, error))).toMatchObject({
      message: expect.stringContaining(reason),
    });
  });

  test("/tool on a run whose log was removed says that it was", async () => {
    const { command, removeLog } = await personWorld();
    await removeLog();

    const error = await command("/tools").catch((thrown) => thrown);

    expect(error).toBeInstanceOf(UserError);
    expect(error.message).toMatch(/^The log of this run was removed on \d{4}-\d\d-\d\d, because/);
  });

  test("a command for a tool that fails for a reason nobody can act on does not show it", async () => {
    const { handler, effectOf, run } = await personWorld();

    expect(replyOf(await handler.onFailure(effectOf("/tools"), run, new Error("secret")))).toEqual({
      ...{ kind: "refused", by: "ada", message: "The call failed because of an internal error. Try again." },
    });
  });
});

describe("a call that has to be confirmed", () => {
  test("a call that has to be confirmed is shown first, and runs once its word is given for exactly this call", async () => {
    const { command, show, execute } = await personWorld();

    const shown = await show("/git_push --branch main --yes");
    expect(shown).toEqual({
      ...{ kind: "confirm", callId: "by-1", tool: "git_push", args: { branch: "main" }, isAltered: false },
      preview: { sections: [{ kind: "text", title: expect.any(String), text: "It pushes to main." }] },
      ...{ command: `/tool git_push --branch main --yes ${shown.word}`, word: expect.stringMatching(/^[a-z0-9]{8}$/) },
    });
    expect(replyOf(await command(`/git_push --branch other --yes ${shown.word}`))).toMatchObject({ kind: "confirm" });
    expect(execute).not.toHaveBeenCalled();

    const { events } = await command(shown.command.replace(shown.word, shown.word.toUpperCase()));
    expect(execute).toHaveBeenCalledExactlyOnceWith({ branch: "main" }, expect.anything());
    expect(events).toMatchObject([{ event: { type: "tool.invoked", tool: "git_push" } }]);
  });

  test("a call that has to be confirmed is shown again when it would do something else now", async () => {
    let target = "staging";
    const { command, show, execute } = await personWorld({ push: { preview: () => `It deploys to ${target}.` } });
    const shown = await show("/git_push");
    target = "production";

    expect(replyOf(await command(shown.command))).toMatchObject({ kind: "confirm", isAltered: false });
    expect(execute).not.toHaveBeenCalled();
  });

  test.each<[string, { isUnchanged?: boolean; commentId?: number; runs: boolean }]>([
    ["runs", { commentId: 51, runs: true }],
    ["runs without a comment, such as from the page,", { runs: true }],
    ["is shown again where its comment was edited or deleted", { commentId: 51, isUnchanged: false, runs: false }],
    ["is shown again where the command is not newer than its comment", { commentId: 50, runs: false }],
  ])("%s after its word was given", async (_, { isUnchanged = true, commentId, runs }) => {
    const { command, show, execute, services } = await personWorld();
    services.frontEnd.isUnchanged = async () => isUnchanged;
    const shown = await show("/git_push");

    const result = await command(shown.command, { commentId });

    expect(execute).toHaveBeenCalledTimes(runs ? 1 : 0);
    expect(replyOf(result)).toEqual(runs ? undefined : { ...shown, isAltered: true });
  });

  test("a confirmed call waits a second for its comment to be stored, and is then shown again", async () => {
    const { command, clock, execute } = await personWorld();
    const shown = replyOf(await command("/git_push"));
    const line = shown?.kind === "confirm" ? shown.command : "";

    const postponed = await command(line).catch((error) => error);
    const later = await command(line, {}, { dueAt: clock.now });

    expect(postponed).toBeInstanceOf(PostponedError);
    expect(postponed.until).toBe(clock.now + 1_000);
    expect(replyOf(later)).toMatchObject({ kind: "confirm", isAltered: true });
    expect(execute).not.toHaveBeenCalled();
  });

  test.each([
    ["approvers: [mia]", "@ada may not approve here. Approvers: @mia."],
    ["second_person: true", "needs the approval of a second person here (Anyone with write access)"],
    ["approvals: [{ required: 2, exclude: nobody }]", "needs the approval of a second person"],
  ])("a call cannot be confirmed by someone who may not approve alone: %s", async (settings, refusal) => {
    const { command, show, execute } = await personWorld({ settings });
    const shown = await show("/git_push");

    expect(replyOf(await command(shown.command))).toMatchObject({ message: expect.stringContaining(refusal) });
    expect(execute).not.toHaveBeenCalled();
  });

  test("a call that has to be confirmed is refused when it is too long to be shown", async () => {
    const { command, services } = await personWorld();
    services.frontEnd.canShow = () => false;

    expect(replyOf(await command("/git_push --yes"))).toMatchObject({
      message: expect.stringContaining("too long to show"),
    });
  });

  test("a blocked call cannot be confirmed", async () => {
    const needsApproval = () => {
      throw new BlockedError("git_push", "It is Friday.");
    };
    const { command, execute } = await personWorld({ push: { needsApproval } });

    expect(replyOf(await command("/tool git_push --yes abcdefgh"))).toMatchObject({
      ...{ kind: "refused", message: expect.stringContaining("blocked by policy") },
    });
    expect(execute).not.toHaveBeenCalled();
  });
});

describe("a call from a user interface", () => {
  const request = {
    kind: "tool.invoke" as const,
    callId: "by-1",
    by: "ada",
    tool: "git_push",
    args: { branch: "main" },
  };

  test("a call from a user interface is confirmed by its word, without a comment", async () => {
    const { services, perform, effect, execute } = await personWorld();
    const invoke = (agreed?: string) => perform(invokeTool(services), effect({ ...request, agreed }));

    const shown = replyOf(await invoke());
    expect(shown).toMatchObject({ kind: "confirm", tool: "git_push" });
    expect(execute).not.toHaveBeenCalled();

    const { effects } = await invoke(shown?.kind === "confirm" ? shown.word : "");
    expect(execute).toHaveBeenCalledExactlyOnceWith({ branch: "main" }, expect.anything());
    expect(effects?.[0]?.request).not.toHaveProperty("thread");
  });

  test("a call from a user interface is refused with the reason", async () => {
    const { services, perform, effect, run } = await personWorld({ permission: async () => "read" });
    const handler = invokeTool(services);

    await expect(perform(handler, effect(request))).rejects.toThrow("You need write access");
    expect(replyOf(await handler.onFailure(effect(request), run, new UserError("No.")))).toMatchObject({
      message: "No.",
    });
  });
});

test.each(["command.run", "tool.invoke"])(
  "%s is postponed while GitHub does not answer who may call tools",
  async (kind) => {
    const permission = () => Promise.reject(new OutageError("GitHub did not answer."));
    const { services, command, perform, effect, clock } = await personWorld({ permission });
    const request = { kind: "tool.invoke" as const, callId: "by-1", by: "ada", tool: "git_push", args: {} };

    const performed = kind === "tool.invoke" ? perform(invokeTool(services), effect(request)) : command("/git_push");

    const postponed = await performed.catch((error) => error);
    expect(postponed).toBeInstanceOf(PostponedError);
    expect(postponed).toMatchObject({
      until: clock.now + 30_000,
      reason: "GitHub did not say whether @ada has write access. Asking again.",
    });
  },
);

describe("a tool that must not run twice", () => {
  const push = { needsApproval: false, afterCrash: "report" as const };

  test("a tool that must not run twice does not, also after a crash, and is reported", async () => {
    const { command, execute } = await personWorld({ push });

    const done = await command("/git_push", {}, { attempts: 2 });

    expect(execute).not.toHaveBeenCalled();
    const error = { message: expect.stringContaining("may or may not have taken effect") };
    expect(done.events).toMatchObject([{ event: { type: "tool.invoked", result: { error } } }]);
  });

  test("a tool that must not run twice runs only while this process has the lease", async () => {
    const { command, execute } = await personWorld({ push });
    const lost = () => Promise.reject(new LeaseLostError());

    await expect(withLease(lost, () => command("/git_push"))).rejects.toThrow(LeaseLostError);
    expect(execute).not.toHaveBeenCalled();
    await withLease(lost, () => command("/git_push", {}, { attempts: 2 }));
  });
});

describe("a command that confirms a call", () => {
  test.each([
    [{ branch: "golem/7-a", b: "x", force: true, f: true }, "/tool git_push --branch golem/7-a -b x --force -f"],
    [{ message: 'say "hi"\\' }, '/tool git_push --message="say \\"hi\\"\\\\"'],
    [{ count: "-1", empty: "" }, '/tool git_push --count="-1" --empty=""'],
  ])("a command that confirms %j is written as a person would write it", (options, line) => {
    expect(writeToolCommand("git_push", options)).toBe(line);
  });

  test("a command that confirms a call is parsed to the same options, whatever they are", () => {
    const name = fc.stringMatching(/^[a-z][a-z_-]{0,10}$/);
    const value = fc.oneof(fc.string(), fc.constant(true), fc.constantFrom("—x", "--", "-", "“", "a=b", "'", "\\"));
    fc.assert(
      fc.property(fc.dictionary(name, value), (options) => {
        const parsed = parseCommand(writeToolCommand("git_push", options));

        expect(parsed).toMatchObject({ name: "tool", args: ["git_push"] });
        expect(parsed?.options).toEqual({ ...options });
      }),
      { numRuns: propertyRuns(1_000) },
    );
  });
});
