import { describe, expect, test } from "vitest";
import { call, type Script, startStories } from "../support/forge-stories.ts";
import { approvalIdIn } from "../support/forge-world.ts";
import type { TestGitHub } from "../support/test-github.ts";

describe.concurrent("the story reaches its end, and nothing is posted twice", () => {
  test("the story ends when every operation fails the first time, and is then rate limited in both of GitHub's ways", async () => {
    const failure = { status: 500, body: { message: "Server Error" } };
    const headers = { "retry-after": "0" };
    const secondary = { message: "You have exceeded a secondary rate limit. Please wait a few minutes." };

    const { failed, result } = await playFaulty([
      failure,
      { status: 403, body: secondary, headers },
      { status: 429, body: {}, headers },
    ]);

    expect(failed.filter((name) => name.startsWith("git "))).not.toEqual([]);
    expect(failed.length).toBeGreaterThan(11);
    expect(result).toEqual(expected);
  });

  test("the story ends when every write is carried out and its response is lost", async () => {
    const lost = new Set<string>();

    const result = await playStory((github) => {
      github.afterWrite(({ operation = "", body }) => {
        const marker = /<!-- (.*) -->\s*$/.exec(String((body as { body?: unknown })?.body))?.[1];
        const name = `${operation} ${marker}`;
        if (lost.has(name)) return undefined;
        lost.add(name);
        return "drop";
      });
    });

    expect([...lost].length).toBeGreaterThan(7);
    expect(result).toEqual(expected);
  });
});

/** Plays from /run to the answer, approving every request, and returns the final content of GitHub. */
async function playStory(prepare: (github: TestGitHub) => void) {
  const forge = await startStories({ environment: { LOG_LEVEL: "silent" } });
  try {
    prepare(forge.github);
    await forge.start();
    const { comment, until } = forge.open({ title: "The total is one too high", script: fixesTheTotal });
    // GitHub does not redeliver by itself: failed deliveries are sent again, as an operator would.
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
      const done = [/\*\*fixer\*\* is done/, /^### ✅ \*\*fixer\*\*\n/].every((pattern) =>
        comments.some(({ author, body }) => author === forge.github.botLogin && pattern.test(body)),
      );
      return done ? comments : undefined;
    }, "the answer");

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

const expected = {
  comments: ["answer", "status"],
  // An approved call is retried until it is done, without asking again.
  approvals: 1,
  branches: 2,
  pulls: [{ title: "Count every item once", draft: true }],
};

interface Fault {
  status: number;
  body: unknown;
  headers?: Record<string, string>;
}

/** Each operation of the API fails with these faults in order, and each git request with the first one, and then works. */
async function playFaulty(faults: Fault[]) {
  const failed = new Map<string, number>();
  const result = await playStory((github) => {
    github.onRequest(({ method, operation = "" }) => {
      const isGit = !operation.startsWith(method);
      const name = isGit ? `git ${operation}` : operation;
      const times = failed.get(name) ?? 0;
      if (times >= (isGit ? 1 : faults.length)) return undefined;
      failed.set(name, times + 1);
      return faults[times];
    });
  });
  return { failed: [...failed.keys()], result };
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
