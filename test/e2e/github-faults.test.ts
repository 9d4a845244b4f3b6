import { describe, expect, test } from "vitest";
import { call, type Script, startStories } from "../support/forge-stories.ts";
import { approvalIdIn } from "../support/forge-world.ts";
import type { TestGitHub } from "../support/test-github.ts";

describe.concurrent("the story comes to its end, and GitHub shows nothing twice", () => {
  const trouble = { status: 500, body: { message: "Server Error" } };

  test.each([
    ["question", /^GET /],
    ["write and every exchange with git", /^(POST|PATCH|git) /],
  ])("when every %s fails the first time", async (_, chosen) => {
    const { failed, held } = await playFaulty(chosen, [trouble]);

    expect(failed).toBeGreaterThan(6);
    expect(held).toEqual(whatItShouldHold);
  });

  test("when every operation is told to slow down, in both of GitHub's ways", async () => {
    const headers = { "retry-after": "0" };
    const secondary = { message: "You have exceeded a secondary rate limit. Please wait a few minutes." };

    const { failed, held } = await playFaulty(/^[A-Z]+ /, [
      { status: 403, body: secondary, headers },
      { status: 429, body: {}, headers },
    ]);

    expect(failed).toBeGreaterThan(12);
    expect(held).toEqual(whatItShouldHold);
  });

  test("when every write is carried out and its answer is lost", async () => {
    const lost = new Set<string>();

    const held = await playStory((github) => {
      github.afterWrite(({ operation = "", body }) => {
        const marker = /<!-- (.*) -->\s*$/.exec(String((body as { body?: unknown })?.body))?.[1];
        const name = `${operation} ${marker}`;
        if (lost.has(name)) return undefined;
        lost.add(name);
        return "drop";
      });
    });

    expect([...lost].length).toBeGreaterThan(7);
    expect(held).toEqual(whatItShouldHold);
  });
});

/** Plays from /run to the answer and gives what of it stands on GitHub; every request for approval is granted. */
async function playStory(disturb: (github: TestGitHub) => void) {
  const forge = await startStories({ environment: { LOG_LEVEL: "silent" } });
  try {
    disturb(forge.github);
    const { pid } = await forge.start();
    const { comment, until } = forge.open({ title: "The total is one too high", script: fixesTheTotal });
    // GitHub itself sends nothing twice: what could not be taken in is sent again as its operators do.
    comment("/run fixer");
    await forge.github.deliveriesSettled();
    for (const { id: delivery, statusCode } of [...forge.github.deliveries]) {
      if (statusCode !== 200) forge.github.redeliver(delivery);
    }
    const approved = new Set<string>();
    const thread = await until(({ comments }) => {
      for (const request of comments.filter(({ body }) => /asks for approval/.test(body))) {
        const approval = approvalIdIn(request);
        if (!approved.has(approval)) comment(`/approve ${approval}`);
        approved.add(approval);
      }
      const done = [/\*\*fixer\*\* is done/, /^### ✅ \*\*fixer\*\*\n/].every((words) =>
        comments.some(({ author, body }) => author === forge.github.botLogin && words.test(body)),
      );
      return done ? comments : undefined;
    }, "the answer");
    expect(() => process.kill(pid ?? 0, 0)).not.toThrow();

    const [repository] = Object.values(await forge.github.snapshot());
    const kinds = thread.flatMap(({ body }) => /<!-- golem-forge:(\w+)/.exec(body)?.[1] ?? []);
    return {
      comments: kinds.filter((kind) => kind !== "approval").sort(),
      approvals: kinds.filter((kind) => kind === "approval").length,
      branches: Object.keys(repository?.branches ?? {}).length,
      pulls: repository?.pulls.map(({ title, pull }) => ({ title, draft: pull?.draft })),
    };
  } finally {
    await forge.close();
  }
}

const whatItShouldHold = {
  comments: ["answer", "status"],
  // What was approved is tried until it is done: nobody is asked a second time.
  approvals: 1,
  branches: 2,
  pulls: [{ title: "Count every item once", draft: true }],
};

interface Fault {
  status: number;
  body: unknown;
  headers?: Record<string, string>;
}

/** Each of the chosen operations shows these faults one after the other, and then works. */
async function playFaulty(chosen: RegExp, faults: Fault[]) {
  const failed = new Map<string, number>();
  const held = await playStory((github) => {
    github.onRequest(({ method, operation = "" }) => {
      const name = operation.startsWith(method) ? operation : `git ${operation}`;
      const times = failed.get(name) ?? 0;
      if (!chosen.test(name) || times >= faults.length) return undefined;
      failed.set(name, times + 1);
      return faults[times];
    });
  });
  return { failed: failed.size, held };
}

const fixesTheTotal: Script = ({ messages }) => {
  const calls = messages.flatMap(({ tool_calls = [] }) => tool_calls.map((one) => one.function.name));
  if (!calls.includes("read_file")) return call("read_file", { path: "src/total.js" });
  if (!calls.includes("edit_file")) {
    return call("edit_file", { path: "src/total.js", old_text: "items.length + 1", new_text: "items.length" });
  }
  if (!calls.includes("open_pull_request")) {
    return call("open_pull_request", { title: "Count every item once", body: "One too many." });
  }
  return { text: "Fixed: every item counts once." };
};
