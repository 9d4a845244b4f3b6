import { type ChatMessage, denialReason, messageText, resultsOf } from "./conversation.ts";
import { type ModelReply, turnOf } from "./model-server.ts";

const library = "src/paginate.js";
const oldComment = "An empty list has one empty page.";
const newComment = "An empty list has one empty page; a full last page is the last one.";
const fixerChange = "A full last page is no longer followed by an empty one.";

/**
 * Plays the model after it opened its pull request: adds the changelog that the sample's CI requires, and makes the changes
 * to the sample's comments that a review requests. Returns undefined if there is nothing to do.
 */
export function reviseScript(
  messages: readonly ChatMessage[],
  offered: ReadonlySet<string>,
  change = fixerChange,
): ModelReply | undefined {
  const start = messages.findLastIndex(
    (message) => message.role === "user" && turnsFor(messageText(message), change) !== undefined,
  );
  const asked = messageText(messages[start]);
  const since = messages.slice(start + 1);
  const turns = start < 0 ? undefined : turnsFor(asked, change);
  if (!turns || !offered.has("update_pull_request")) return undefined;
  const denied = resultsOf(since, "update_pull_request").map(denialReason).at(-1);
  if (denied !== undefined)
    return { text: `The push was denied${denied && `: ${denied}`}. The change remains in this run.` };
  return turns[turnOf(since)] ?? { text: "Done." };
}

function turnsFor(asked: string, change: string): ModelReply[] | undefined {
  if (/checks? failed/i.test(asked))
    return /changelog/i.test(asked) ? changelogTurns(change) : [{ text: cannot("repair that check") }];
  const comments = [...asked.matchAll(/review comment (\d+)/gi)].map(([, id]) => Number(id));
  if (!/requests changes/.test(asked) || comments.length === 0) return undefined;
  return reviewTurns([...new Set(comments)], { canDoIt: /in (this|the) comment|docstring/i.test(asked) });
}

function changelogTurns(change: string): ModelReply[] {
  const content = `# Changelog\n\n- ${change}\n`;
  return [
    {
      text: "CI requires a line in CHANGELOG.md. I'll add one.",
      calls: [{ name: "write_file", args: { path: "CHANGELOG.md", content } }],
    },
    { text: "", calls: [{ name: "update_pull_request", args: { message: "Add the change to the changelog" } }] },
    { text: "I added a line to `CHANGELOG.md` and pushed it, so CI runs again." },
  ];
}

function reviewTurns(comments: readonly number[], { canDoIt }: { canDoIt: boolean }): ModelReply[] {
  const reply = (text: string, done: boolean) => ({
    text: "",
    calls: comments.map((id) => ({ name: "reply_to_review", args: { review_comment_id: id, text, done } })),
  });
  if (!canDoIt) return [reply(cannot("do this"), false), { text: "I answered the review without changing anything." }];
  return [
    {
      text: "The review asks for a clearer comment. I'll change it and run the tests again.",
      calls: [
        { name: "edit_file", args: { path: library, old_text: oldComment, new_text: newComment } },
        { name: "run_tests", args: {} },
      ],
    },
    {
      text: "",
      calls: [{ name: "update_pull_request", args: { message: "Say in the comment what a full last page does" } }],
    },
    reply("The comment now says this.", true),
    { text: "I changed the comment, pushed it and answered the review." },
  ];
}

function cannot(what: string): string {
  return `I am a scripted model, so I cannot ${what}. With a real model, a worker would.`;
}
