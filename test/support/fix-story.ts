import type { GitHubSnapshot, SnapshotComment } from "#playground/github/snapshot.ts";
import { turnOf } from "#playground/model/model-server.ts";
import { approvalIdIn, type Forge, type ForgeOptions } from "./forge-world.ts";

/** The model's script for one issue: it reads, edits, opens a pull request, and reports that it is done. */
export const fixScript: ForgeOptions["script"] = ({ messages }) => {
  const steps = [
    { calls: [{ name: "read_file", args: { path: "src/total.js" } }] },
    {
      calls: [
        { name: "edit_file", args: { path: "src/total.js", old_text: "items.length + 1", new_text: "items.length" } },
      ],
    },
    { calls: [{ name: "open_pull_request", args: { title: "Count every item once", body: "One too many." } }] },
  ];
  return steps[turnOf(messages)] ?? { text: "Fixed: every item counts once." };
};

/**
 * Plays the story from the issue, which is opened if none is given, to the answer. The people in it ignore any faults.
 * Resolves to the final content of GitHub.
 */
export async function playFix(
  forge: Pick<Forge, "github" | "botComment">,
  given?: { number: number },
): Promise<unknown> {
  const { github, botComment } = forge;
  const issue =
    given ?? github.as("visitor").openIssue({ title: "The total is one too high", body: "Two items give 3." });
  const maintainer = github.as("maintainer");
  maintainer.comment(issue.number, "/run fixer");
  maintainer.comment(issue.number, `/approve ${approvalIdIn(await botComment(issue.number, /asks for approval/))}`);
  await botComment(issue.number, /✅ \*\*fixer\*\*\n/);
  await botComment(issue.number, /Approved by maintainer/);
  await botComment(issue.number, /\*\*fixer\*\* is done/);
  await github.deliveriesSettled();
  return whatGitHubHolds(forge, await github.snapshot(), issue.number);
}

/**
 * Returns what GitHub has of one issue, without the parts that differ between runs: ids, numbers, times, the number of model
 * calls, and the position of the status.
 */
export async function whatGitHubHolds(
  { github }: Pick<Forge, "github">,
  snapshot: GitHubSnapshot,
  number: number,
): Promise<unknown> {
  const [repository] = Object.values(snapshot);
  const isStatus = ({ body }: SnapshotComment) => body.includes("golem-forge:status%2F");
  const isOfIssue = (branch = "") => branch.startsWith(`golem/${number}-`);
  const plain = (text: string) =>
    text
      .replace(/golem\/\d+-[a-z0-9]{8}/g, "golem/ISSUE-RUN")
      .replace(/(#\u200b?)(\d+)/g, (_, sign, digits) => `${sign}${Number(digits) === number ? "ISSUE" : "PULL"}`)
      .replace(/\/pull\/\d+/g, "/pull/PULL")
      .replace(/(status|outcome|answer)%2F[a-z0-9]{8}/g, "$1%2FRUN")
      .replace(/(approval%2F|approved |approval `|\/approve |\/deny )[a-z0-9]{4}\b/g, "$1ID")
      .replace(/run `[a-z0-9]{8}`/g, "run `RUN`")
      .replace(/127\.0\.0\.1:\d+/g, "HOST")
      .replace(/\/runs\/[a-z0-9]{8}\/\w+/g, "/runs/RUN")
      .replace(/digest `\w+`/g, "digest")
      .replace(/`[a-z0-9]{4}` `[0-9a-f]{12}`/g, "`ID` `DIGEST`")
      .replace(/\d{4}-\d\d-\d\d \d\d:\d\d UTC/g, "TIME")
      .replace(/[\d.]+K? tokens in, [\d.]+K? out|\d+ steps?/g, "COUNT");
  const branches = Object.keys(repository?.branches ?? {})
    .filter(isOfIssue)
    .map(plain)
    .sort();
  const pulls = await Promise.all(
    (repository?.pulls ?? [])
      .filter(({ pull }) => isOfIssue(pull?.head))
      .map(async ({ title, body, pull }) => ({
        title,
        body: plain(body),
        head: plain(pull?.head ?? ""),
        draft: pull?.draft,
        file: await github.readFile(pull?.head ?? "", "src/total.js"),
      })),
  );
  const issue = repository?.issues.find((one) => one.number === number);
  const comments = issue?.comments
    // A status that is delayed until people are asked appears once there is more to say.
    .toSorted((a, b) => Number(isStatus(b)) - Number(isStatus(a)))
    .map(({ author, body, reactions }) => ({ author, body: plain(body), reactions }));
  return { branches, pulls, comments };
}

const twoComments = [
  { path: "src/total.js", line: 1, body: "Please add a changelog." },
  { path: "src/total.js", line: 1, body: "Please name the reason." },
];

/** The model's script for a review of that pull request: it pushes once and answers every comment. */
export const reviewScript: ForgeOptions["script"] = (request) => {
  const turn = turnOf(request.messages);
  if (turn < 4) return fixScript(request);
  const review = JSON.stringify(request.messages);
  const ids = [...new Set([...review.matchAll(/Review comment (\d+)/g)].map(([, id]) => Number(id)))];
  const answer = (id: number | undefined) => ({
    calls: [{ name: "reply_to_review", args: { review_comment_id: id, text: "Done.", done: true } }],
  });
  const steps = [
    { calls: [{ name: "write_file", args: { path: "CHANGES.md", content: "Items count once.\n" } }] },
    { calls: [{ name: "update_pull_request", args: { message: "Add a changelog" } }] },
    answer(ids[0]),
    answer(ids[1]),
  ];
  return steps[turn - 4] ?? { text: "The review is answered." };
};

/**
 * Plays a review of the pull request of `playFix`, which is submitted while the app is down and delivered twice. Resolves to
 * the pushes to its branch and the answers to the review's comments.
 */
export async function playReview(forge: Pick<Forge, "github" | "botComment" | "end">): Promise<unknown> {
  const { github, botComment } = forge;
  const maintainer = github.as("maintainer");
  const [opened] = Object.values(await github.snapshot()).flatMap(({ pulls }) => pulls);
  const { number = 0, pull } = opened ?? {};
  await forge.end("SIGKILL");
  await maintainer.review(number, { event: "REQUEST_CHANGES", body: "Two things.", comments: twoComments });
  const request = await botComment(number, /asks for approval[\s\S]*`update_pull_request`/);
  const delivered = github.deliveries.find(({ event }) => event === "pull_request_review");
  if (delivered) github.redeliver(delivered.id);
  maintainer.comment(number, `/approve ${approvalIdIn(request)}`);
  await botComment(number, /The review is answered\./);
  await github.deliveriesSettled();

  const [end] = Object.values(await github.snapshot()).flatMap(({ pulls }) => pulls);
  const comments = (end?.pull?.reviews ?? []).flatMap((review) => review.comments);
  const pushes = new Set(github.deliveries.filter(({ event }) => event === "push").map(({ guid }) => guid));
  return {
    pushes: pushes.size,
    changes: await github.readFile(pull?.head ?? "", "CHANGES.md"),
    requests: end?.comments.filter(({ body }) => /golem-forge:approval%2F/.test(body)).length,
    answers: comments.map(({ author, body }) => ({ author, body: body.replace(/[0-9a-f]{32,40}/g, "HASH") })),
  };
}

/** The model's script for what happens to that pull request later: a change, and another one after a force push. */
export const changesScript: ForgeOptions["script"] = (request) => {
  const turn = turnOf(request.messages);
  if (turn < 4) return fixScript(request);
  const branch = /golem\/1-[a-z0-9]{8}/.exec(JSON.stringify(request.messages))?.[0];
  const step = (name: string, args: object) => ({ calls: [{ name, args }] });
  const steps = [
    step("write_file", { path: "CHANGES.md", content: "One.\n" }),
    step("update_pull_request", { message: "Add a changelog" }),
    { text: "Added." },
    step("write_file", { path: "CHANGES.md", content: "Two.\n" }),
    step("update_pull_request", { message: "Change the changelog" }),
    step("git_merge", { branch }),
    step("update_pull_request", { message: "Change it again" }),
    { text: "Changed." },
  ];
  return steps[turn - 4] ?? { text: "I am back." };
};

/**
 * Plays the story of a pull request whose last push is undone, whose branch a person force-pushes, and which is closed and
 * reopened. Resolves to its final content and the kinds of comments on it.
 */
export async function playChanges({ github, botComment }: Pick<Forge, "github" | "botComment">): Promise<unknown> {
  const maintainer = github.as("maintainer");
  const ownPull = async () => Object.values(await github.snapshot()).flatMap(({ pulls }) => pulls)[0];
  const { number = 0, pull } = (await ownPull()) ?? {};
  const head = pull?.head ?? "";
  const comment = (text: string) => maintainer.comment(number, text);
  const approve = async (text: RegExp) =>
    comment(
      `/approve ${approvalIdIn(await botComment(number, new RegExp(`asks for approval[\\s\\S]*${text.source}`)))}`,
    );

  comment("Add a changelog.");
  await approve(/Add a changelog/);
  await botComment(number, /Added\./);
  comment("/undo");
  const { body } = await botComment(number, /`undo_push` asks before it runs/);
  comment(/^\/tool undo_push .*$/m.exec(body)?.[0] ?? "");
  await botComment(number, /Undid [0-9a-f]{7} with [0-9a-f]{7}/);
  const files = { "src/total.js": (await github.readFile(head, "src/total.js")) ?? "", "author.js": "1\n" };
  await github.push({ branch: "rebased", message: "Rebase", author: "maintainer", at: new Date(), files });
  await github.moveBranch(head, "rebased", "maintainer");
  comment("Change it.");
  await approve(/Change the changelog/);
  await approve(/git_merge/);
  await approve(/Change it again/);
  await botComment(number, /Changed\./);
  maintainer.close(number);
  await botComment(number, /was closed by/);
  await botComment(1, /\*\*fixer\*\* is done\n/);
  maintainer.reopen(number);
  await botComment(1, /\*\*fixer\*\* is done and is waiting for review/);
  comment("Hello.");
  await botComment(number, /I am back\./);
  await github.deliveriesSettled();

  const pushes = new Set(github.deliveries.filter(({ event }) => event === "push").map(({ guid }) => guid));
  const comments = ((await ownPull())?.comments ?? []).filter(({ author }) => author !== "maintainer");
  return {
    pushes: pushes.size,
    changes: await github.readFile(head, "CHANGES.md"),
    author: await github.readFile(head, "author.js"),
    comments: comments.map(({ body: text }) => text.split("\n")[0]?.replace(/, \d{4}-.*/, "")).sort(),
  };
}
