import { describe, expect, test, vi } from "vitest";
import { openSqliteStore } from "#runtime/store/sqlite/open-sqlite-store.ts";
import type { Store } from "#runtime/store/store.ts";
import { parseToolCommand } from "#ui/run-commands.ts";
import { origin, type RuntimeWorldOptions, runtimeWorlds, turns } from "../support/runtime-world.ts";

const world = runtimeWorlds();

const write = { calls: [{ name: "write_file", args: { path: "new.js", content: "export const two = 2;\n" } }] };
const openPull = { calls: [{ name: "open_pull_request", args: { title: "Add two", body: "One more." } }] };

/** A run that wrote `new.js` and is over. */
async function afterRun(options: Partial<RuntimeWorldOptions> = {}, worker = "fixer") {
  const made = await world({ script: turns(write, { text: "Written." }), ...options });
  const { id } = await made.runs.startRun({ origin, worker, text: "please" });
  await made.ended();
  const invoke = (line: string, more: object = {}) =>
    made.runs.runToolCommand(origin, { by: "ada", command: parseToolCommand(line), ...more });
  /** Calls a tool that asks, and confirms exactly what was shown. */
  const invokeAndConfirm = async (line: string, more: object = {}) => {
    await invoke(line);
    const reply = await made.toolReply(0);
    if (reply?.kind !== "confirm") throw new Error(`Expected a request to confirm, got ${JSON.stringify(reply)}`);
    await invoke(reply.command, more);
    return made.toolReply(1);
  };
  return { ...made, id, invoke, invokeAndConfirm };
}

describe("a tool that a person calls", () => {
  test("a tool that a person calls runs on a run that has ended, gets one reply, and is logged", async () => {
    const { id, invokeAndConfirm, invoke, github, runs, runtime, shown, store } = await afterRun();

    const reply = await invokeAndConfirm('/tool git_push --message "By hand"', { deliveryId: "d1" });
    await invoke('/tool git_push --message "By hand"', { deliveryId: "d1" });
    await runtime.idle();

    expect(reply).toMatchObject({ kind: "result", by: "ada", tool: "git_push", args: { message: "By hand" } });
    expect(await github.git("log", "-1", "--format=%s", `golem/7-${id}`)).toBe("By hand\n");
    expect(await github.git("show", `golem/7-${id}:new.js`)).toBe("export const two = 2;\n");
    expect(shown.filter(({ kind }) => kind === "tool")).toHaveLength(2);
    expect((await store.log(id)).filter(({ event }) => event.type === "tool.invoked")).toHaveLength(1);
    const view = await runs.findRunView(id);
    expect(view?.outcome).toEqual({ kind: "answered", text: "Written." });
    expect(view?.log.at(-1)).toMatch(/^@ada ran git_push: Pushed [0-9a-f]{7} to golem\/7-/);
  });

  test("a tool that a person calls runs while the worker waits, and the model sees it when it continues", async () => {
    const { runs, approvalRequested, ended, toolReply, model, github } = await world({
      script: turns(write, openPull, { text: "Opened." }),
    });
    await runs.startRun({ origin, worker: "fixer", text: "please" });
    const approval = await approvalRequested();

    await runs.runToolCommand(origin, { by: "ada", command: parseToolCommand("/git_status") });
    expect(await toolReply()).toMatchObject({ kind: "result", tool: "git_status" });
    await runs.decideApprovals(origin, { by: "ada", target: approval.id, approve: true });

    await ended();
    expect(await github.pulls()).toMatchObject([{ title: "Add two" }]);
    const last = model.requests.at(-1)?.messages.slice(-2);
    expect(last?.map(({ role }) => role)).toEqual(["tool", "user"]);
    expect(JSON.stringify(last?.[1])).toContain("@ada ran git_status");
  });

  test("a tool that a person calls changes the files for later calls, and can be undone", async () => {
    const { invoke, toolReply, store, id } = await afterRun();

    await invoke("/undo");
    expect(await toolReply(0)).toMatchObject({ kind: "result", result: { value: { kind: "filesystem.undo" } } });
    await invoke("/tool git_status");

    expect(await toolReply(1)).toMatchObject({ result: { value: { summary: "No changes" } } });
    expect(await store.changesOf(id)).toMatchObject([
      { step: expect.stringMatching(/^1\/call/) },
      { step: expect.stringMatching(/^2\/by-/) },
    ]);
  });

  test("a tool that cannot work is refused before a person has to confirm it", async () => {
    const { invoke, toolReply, runs, id } = await afterRun();

    await invoke("/t git_push --branch main");

    expect(await toolReply()).toMatchObject({
      kind: "refused",
      message: expect.stringContaining("This run can only push to its own branch"),
    });
    expect((await runs.findRunView(id))?.log.at(-1)).not.toContain("git_push");
  });

  test("a person's call waits until the model has answered, says so at once, and shows its result in the same comment", async () => {
    const answered = Promise.withResolvers<void>();
    const { runs, runtime, waitUntilShown, toolReply, shown } = await world({
      script: async () => {
        await answered.promise;
        return { text: "Done." };
      },
    });
    await runs.startRun({ origin, worker: "fixer", text: "please" });
    await waitUntilShown(({ view }) => view.state === "callingModel");

    await runs.runToolCommand(origin, { by: "ada", command: parseToolCommand("/retest"), mayBeForeign: true });
    await runs.runToolCommand(origin, { by: "ada", command: parseToolCommand("/git_status") });
    expect(await toolReply(0)).toEqual({ kind: "queued", by: "ada", behind: "model" });
    answered.resolve();

    expect(await toolReply(1)).toMatchObject({ kind: "result", tool: "git_status" });
    await runtime.idle();
    expect(new Set(shown.filter(({ kind }) => kind === "tool").map(({ options }) => options.name)).size).toBe(1);
  });

  test("a person's call that waits for the model runs at once when a person stops the run", async () => {
    const { runs, waitUntilShown, toolReply } = await world({ script: () => new Promise(() => {}) });
    await runs.startRun({ origin, worker: "fixer", text: "please" });
    await waitUntilShown(({ view }) => view.state === "callingModel");
    await runs.runToolCommand(origin, { by: "ada", command: parseToolCommand("/git_status") });
    expect(await toolReply(0)).toMatchObject({ kind: "queued" });

    await runs.requestStop(origin, { by: "ada" });

    expect(await toolReply(1)).toMatchObject({ kind: "result", tool: "git_status" });
  });

  test("calls of people are not limited in number", async () => {
    const { invoke, toolReply } = await afterRun();

    await invoke("/git_status");
    await invoke("/git_status");

    expect(await toolReply(0)).toMatchObject({
      kind: "result",
      result: { llmContent: expect.stringContaining("A new.js") },
    });
    expect(await toolReply(1)).toMatchObject({
      kind: "result",
      result: { llmContent: expect.stringMatching(/^On golem/) },
    });
  });
});

test("a command in a thread without runs is refused", async () => {
  const { runs } = await world({ script: turns() });

  await expect(runs.runToolCommand(origin, { by: "ada", command: parseToolCommand("/tool git_push") })).rejects.toThrow(
    "No worker is running in this thread",
  );
});

describe("a call that has to be confirmed", () => {
  const careful = {
    ".github/workers/careful.worker":
      "---\nname: careful\ntoolsets: { filesystem: {}, git: {} }\nsandbox: { approval: { write: preApproved, delete: ask } }\n---\nBe careful.",
  };

  test("a call that has to be confirmed is shown first, and runs when the command is repeated with its code", async () => {
    const { invoke, toolReply, store, id } = await afterRun({ github: { files: careful } }, "careful");

    await invoke("/undo --yes");
    const shown = await toolReply(0);
    expect(shown).toMatchObject({
      kind: "confirm",
      preview: { sections: [{ change: { path: "new.js" }, diff: expect.stringContaining("-export const two = 2;") }] },
      command: expect.stringMatching(/^\/tool undo --yes [a-z0-9]{8}$/),
    });
    expect(await store.changesOf(id)).toHaveLength(1);

    await invoke(shown.kind === "confirm" ? shown.command : "");
    expect(await toolReply(1)).toMatchObject({ kind: "result", tool: "undo" });
    expect(await store.changesOf(id)).toHaveLength(2);
  });
});

describe("after a crash", () => {
  test("between a push and the storing of its result, the same commit is pushed and reported once", async () => {
    const { store, crashes } = crashingOnce(await openSqliteStore(":memory:"));
    const { id, invoke, toolReply, github, shown, runtime } = await afterRun({ store });

    await invoke("/git_push");
    const confirmation = await toolReply(0);
    await invoke(confirmation.kind === "confirm" ? confirmation.command : "");
    await vi.waitFor(() => expect(crashes()).toBe(1), { timeout: 60_000 });
    const pushed = (await github.git("rev-parse", `golem/7-${id}`)).trim();
    await invoke("/git_status");

    expect(await toolReply(1)).toMatchObject({ result: { value: { data: { pushed: { commit: pushed } } } } });
    await toolReply(2);
    await runtime.idle();
    expect(await github.git("rev-list", "--count", `main..golem/7-${id}`)).toBe("1\n");
    expect(shown.filter(({ kind }) => kind === "tool")).toHaveLength(3);
  });
});

/** A store that fails like a killed process when the result of a person's tool is first written. */
function crashingOnce(store: Store) {
  let crashes = 0;
  const completeStep: Store["completeStep"] = async (finished, next) => {
    if (crashes === 0 && finished.events?.some(({ event }) => event.type === "tool.invoked")) {
      crashes += 1;
      throw new Error("The disk is gone.");
    }
    return store.completeStep(finished, next);
  };
  return { store: { ...store, completeStep }, crashes: () => crashes };
}
