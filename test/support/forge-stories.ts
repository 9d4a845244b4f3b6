import { createHmac, randomUUID } from "node:crypto";
import type { SnapshotComment, SnapshotThread } from "#playground/github/snapshot.ts";
import type { Thread } from "#playground/github/world.ts";
import { type ChatRequest, type ModelReply, turnOf } from "#playground/model/model-server.ts";
import { type Forge, type ForgeOptions, startForge } from "./forge-world.ts";

export type Script = ForgeOptions["script"];

/** One issue, with its own script for the model, and what people say and hear in it. */
export interface Story {
  issue: Thread;
  /** What the model was asked in this story, oldest first. */
  requests: ChatRequest[];
  /** Resolves when the model is asked for the first time. */
  asked: Promise<void>;
  /** Comments, as the maintainer unless someone else is named. */
  comment(text: string, login?: string): { id: number };
  /** The bot's first comment that matches, as soon as there is one. */
  botComment(pattern: RegExp): Promise<SnapshotComment>;
  /** Resolves as soon as the thread is so. */
  until<T>(find: (thread: SnapshotThread) => T | undefined, what: string): Promise<T>;
  /** The bot's comments at this moment. */
  comments(): Promise<string[]>;
}

export interface NewStory {
  title: string;
  body?: string;
  script?: Script;
  /** `owner/name`; default: the first. */
  repository?: string;
  by?: string;
  /** How long to wait for something on GitHub. */
  timeoutMs?: number;
}

/** An app for many stories that do not disturb each other: the model tells them apart by the issue's title. */
export async function startStories(options: Omit<ForgeOptions, "script"> = {}) {
  const told: { title: string; script: Script; requests: ChatRequest[]; wake: () => void }[] = [];
  const script: Script = (request) => {
    const beginning = messageText(request.messages.find(({ role }) => role === "user"));
    const story = told.find(({ title }) => beginning.includes(title));
    if (!story) return { status: 400, message: `There is no script for: ${beginning.slice(0, 500)}` };
    story.requests.push(request);
    story.wake();
    return story.script(request);
  };
  // Without the sandbox of the operating system, whose trial at every start these stories do not need.
  const environment = { GOLEM_FORGE_RUNS_PER_HOUR: "1000", ...options.environment };
  const forge = await startForge({ ...options, environment, script });
  const { github } = forge;

  function open({
    title,
    body = "It is broken.",
    script = alwaysReplies("Done."),
    repository,
    by = "visitor",
    timeoutMs = 60_000,
  }: NewStory): Story {
    const requests: ChatRequest[] = [];
    const { promise: asked, resolve: wake } = Promise.withResolvers<void>();
    told.push({ title, script, requests, wake });
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

/** The replies one after the other; the last one for good. */
export function byTurn(...replies: ModelReply[]): Script {
  return ({ messages }) => replies[Math.min(turnOf(messages), replies.length - 1)] ?? { text: "Done." };
}

/** One reply after the other, whatever the conversation holds; the last one for good. */
export function inSequence(...replies: ModelReply[]): Script {
  let asked = 0;
  return () => replies[Math.min(asked++, replies.length - 1)] ?? { text: "Done." };
}

export function alwaysReplies(text: string): Script {
  return () => ({ text });
}

/** A reply that calls one tool. */
export function call(name: string, args: unknown): ModelReply {
  return { calls: [{ name, args }] };
}

/** The text of a message, whichever form the client gave it. */
export function messageText(message: ChatRequest["messages"][number] | undefined): string {
  const content = message?.content;
  return typeof content === "string" ? content : JSON.stringify(content ?? "");
}

export interface RawWebhook {
  body: string;
  event?: string;
  delivery?: string;
  /** Default: the right one. */
  signature?: string;
}

/** Posts a webhook by hand. Resolves to the status the app answers. */
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
