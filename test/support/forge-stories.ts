import { createHmac, randomUUID } from "node:crypto";
import type { SnapshotComment, SnapshotThread } from "#playground/github/snapshot.ts";
import type { Thread } from "#playground/github/world.ts";
import { type ChatRequest, type ModelReply, turnOf } from "#playground/model/model-server.ts";
import { type Forge, type ForgeOptions, startForge } from "./forge-world.ts";

export type Script = ForgeOptions["script"];

/** One issue with its own model script, and the comments in it. */
export interface Story {
  issue: Thread;
  /** The requests to the model in this story, oldest first. */
  requests: ChatRequest[];
  /** Resolves at the first request to the model. */
  asked: Promise<void>;
  /** Posts a comment, by default as the maintainer. */
  comment(text: string, login?: string): { id: number };
  /** Resolves to the bot's first comment that matches. */
  botComment(pattern: RegExp): Promise<SnapshotComment>;
  /** Resolves to the first result of `find` for the thread that is not undefined. */
  until<T>(find: (thread: SnapshotThread) => T | undefined, what: string): Promise<T>;
  /** Resolves to the bot's current comments. */
  comments(): Promise<string[]>;
}

export interface NewStory {
  title: string;
  body?: string;
  script?: Script;
  /** `owner/name`. Default: the first repository. */
  repository?: string;
  by?: string;
  /** The time to wait for a change on GitHub. */
  timeoutMs?: number;
}

/** Starts one app for many independent stories. The model tells them apart by the title of the issue. */
export async function startStories(options: Omit<ForgeOptions, "script"> = {}) {
  const stories: { title: string; script: Script; requests: ChatRequest[]; wake: () => void }[] = [];
  const script: Script = (request) => {
    const beginning = messageText(request.messages.find(({ role }) => role === "user"));
    // A title may contain another one, and a test that is repeated opens a story with its title again.
    const found = stories.filter(({ title }) => beginning.includes(title));
    const story = found.toSorted((a, b) => a.title.length - b.title.length).at(-1);
    if (!story) return { status: 400, message: `There is no script for: ${beginning.slice(0, 500)}` };
    story.requests.push(request);
    story.wake();
    return story.script(request);
  };
  // No OS sandbox: these stories do not need it, and testing for it slows down every start.
  const environment = { GOLEM_FORGE_RUNS_PER_HOUR: "1000", ...options.environment };
  const forge = await startForge({ ...options, environment, script });
  const { github } = forge;

  function open({
    title,
    body = "It is broken.",
    script = alwaysReplies("Done."),
    repository,
    by = "visitor",
    timeoutMs = 120_000,
  }: NewStory): Story {
    const requests: ChatRequest[] = [];
    const { promise: asked, resolve: wake } = Promise.withResolvers<void>();
    stories.push({ title, script, requests, wake });
    const issue = github.as(by, repository).openIssue({ title, body });
    const until: Story["until"] = (find, what) =>
      github
        .until(
          (snapshot) => {
            const name = repository ?? Object.keys(snapshot)[0] ?? "";
            const thread = snapshot[name]?.issues.find(({ number }) => number === issue.number);
            return thread && find(thread);
          },
          { what: `${what} in "${title}"`, timeoutMs },
        )
        .catch(async (error: Error) => {
          throw new Error(
            `${error.message}\nThe bot said:\n${(await comments()).join("\n\n")}\nThe app printed:\n${forge.printed()}`,
          );
        });
    async function comments(): Promise<string[]> {
      return until(
        ({ comments }) => comments.filter(({ author }) => author === github.botLogin).map(({ body }) => body),
        "comments",
      );
    }
    return {
      issue,
      requests,
      asked,
      comment: (text, login = "maintainer") => github.as(login, repository).comment(issue.number, text),
      botComment: (pattern) =>
        until(
          ({ comments }) => comments.find(({ author, body }) => author === github.botLogin && pattern.test(body)),
          `a comment like ${pattern}`,
        ),
      until,
      comments,
    };
  }

  return { ...forge, open };
}

export type Stories = Awaited<ReturnType<typeof startStories>>;

/** A script that chooses the reply by the turn of the conversation. The last reply is repeated. */
export function byTurn(...replies: ModelReply[]): Script {
  return ({ messages }) => replies[Math.min(turnOf(messages), replies.length - 1)] ?? { text: "Done." };
}

/** A script that gives its replies in order, regardless of the conversation. The last reply is repeated. */
export function inSequence(...replies: ModelReply[]): Script {
  let asked = 0;
  return () => replies[Math.min(asked++, replies.length - 1)] ?? { text: "Done." };
}

export function alwaysReplies(text: string): Script {
  return () => ({ text });
}

/** Creates a reply that calls one tool. */
export function call(name: string, args: unknown): ModelReply {
  return { calls: [{ name, args }] };
}

/** Returns the text of a message, in any form that clients send. */
export function messageText(message: ChatRequest["messages"][number] | undefined): string {
  const content = message?.content;
  return typeof content === "string" ? content : JSON.stringify(content ?? "");
}

export interface RawWebhook {
  body: string;
  event?: string;
  delivery?: string;
  /** Default: the valid signature. */
  signature?: string;
}

/** Posts a webhook directly to the app. Resolves to the status of the response. */
export async function postWebhook(
  { url, webhookSecret }: Pick<Forge, "url" | "webhookSecret">,
  { body, event = "issue_comment", delivery = randomUUID(), signature = signatureOf(body, webhookSecret) }: RawWebhook,
): Promise<number> {
  const answer = await fetch(`${url}/api/github/webhooks`, {
    method: "POST",
    body,
    headers: {
      "content-type": "application/json",
      "x-github-delivery": delivery,
      "x-github-event": event,
      "x-hub-signature-256": signature,
    },
  });
  await answer.arrayBuffer();
  return answer.status;
}

function signatureOf(body: string, secret: string): string {
  return `sha256=${createHmac("sha256", secret).update(body).digest("hex")}`;
}
