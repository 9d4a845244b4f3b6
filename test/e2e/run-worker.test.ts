import { afterEach, expect, test } from "vitest";
import { turnOf } from "#playground/model/model-server.ts";
import { approvalIdIn, type Forge, type ForgeOptions, startForge } from "../support/forge-world.ts";

let forge: Forge | undefined;

afterEach(async () => {
  await forge?.close();
  forge = undefined;
});

/** The whole product on one page. */
test("/run fixer on an issue, an approval in the thread, a pull request", async () => {
  forge = await startForge({ script: fixesTheTotal });
  await forge.startProcess();
  const { github, botComment, inThread } = forge;
  const maintainer = github.as("maintainer");

  // A visitor reports a bug with a screenshot, and a maintainer starts a worker.
  const visitor = github.as("visitor");
  const screenshot = Buffer.from("\x89PNG\r\n\x1a\n a screenshot", "latin1");
  const body = `Two items give 3. ${visitor.attach("total.png", screenshot)}`;
  const issue = visitor.openIssue({ title: "The total is one too high", body });
  const command = maintainer.comment(issue.number, "/run fixer be careful");

  // The command gets a reaction at once, and a status comment shows what the worker is doing.
  await inThread(issue.number, reactionTo(command.id, "eyes"), "👀 on the command");
  await botComment(issue.number, /\*\*fixer\*\* is working/);

  // The worker reads, plans and edits. Before it opens the pull request it asks for approval and shows the change.
  const request = await botComment(issue.number, /asks for approval/);
  expect(JSON.stringify(forge.model.requests[0])).toContain(screenshot.toString("base64"));
  expect(request.body).toContain("`open_pull_request`");
  expect(request.body).toContain("-export const total = (items) => items.length + 1;");
  expect(request.body).toContain("+export const total = (items) => items.length;");
  expect(Object.values(await github.snapshot())[0]?.pulls).toEqual([]);

  // People without write access cannot approve.
  visitor.comment(issue.number, `/approve ${approvalIdIn(request)}`);
  await botComment(issue.number, /you need write access/);

  // The maintainer does.
  maintainer.comment(issue.number, `/approve ${approvalIdIn(request)}`);

  // The pull request is a draft on the run's own branch, with exactly the change that was shown.
  const pull = await github.until((snapshot) => Object.values(snapshot)[0]?.pulls[0]);
  expect(pull).toMatchObject({ title: "Count every item once", author: github.botLogin });
  expect(pull.pull).toMatchObject({ base: "main", draft: true });
  expect(pull.pull?.head).toMatch(new RegExp(`^golem/${issue.number}-`));
  expect(await github.readFile(pull.pull?.head ?? "", "src/total.js")).toBe(
    "export const total = (items) => items.length;\n",
  );
  expect(await github.readFile("main", "src/total.js")).toContain("+ 1");

  // The request says who approved it, the status is done with every task checked, and the answer is a new comment.
  await botComment(issue.number, /Approved by maintainer/);
  await botComment(issue.number, /^\s*- \[x\] Fix the total/m);
  const answer = await botComment(issue.number, /✅ \*\*fixer\*\*\n\nFixed: every item counts once\./);
  expect(answer.id).toBeGreaterThan(request.id);

  // Every request to GitHub is part of its API.
  expect(github.unknownRequests()).toEqual([]);
  expect(await forge.end("SIGTERM")).toBe(0);
});

const fixesTheTotal: ForgeOptions["script"] = ({ messages }) => {
  const steps = [
    { text: "I will look at the code.", calls: [{ name: "read_file", args: { path: "src/total.js" } }] },
    {
      calls: [
        {
          name: "write_tasks",
          args: { tasks: [{ content: "Fix the total", activeForm: "Fixing the total", status: "completed" }] },
        },
        { name: "edit_file", args: { path: "src/total.js", old_text: "items.length + 1", new_text: "items.length" } },
      ],
    },
    {
      calls: [
        {
          name: "open_pull_request",
          args: { title: "Count every item once", body: "The total counted one too many." },
        },
      ],
    },
  ];
  return steps[turnOf(messages)] ?? { text: "Fixed: every item counts once." };
};

function reactionTo(commentId: number, content: string) {
  return ({ comments }: { comments: { id: number; reactions: string[] }[] }) =>
    comments.find(({ id, reactions }) => id === commentId && reactions.some((one) => one.endsWith(` ${content}`)));
}
