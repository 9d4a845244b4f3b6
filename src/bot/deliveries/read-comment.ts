import { z } from "zod";
import type { ReportedLocation } from "#domain/repository-location.ts";
import type { ThreadRef } from "#runtime/runs.ts";
import { readLocation, WebhookRepository } from "./webhook-repository.ts";

const User = z.object({ login: z.string().min(1), id: z.number(), type: z.string().optional() });
type User = z.infer<typeof User>;

const Thread = z.object({
  number: z.number(),
  state: z.string().optional(),
  locked: z.boolean().optional(),
  pull_request: z.unknown().optional(),
  title: z.string().optional(),
  created_at: z.coerce.date().optional().catch(undefined),
  updated_at: z.coerce.date().optional().catch(undefined),
  body: z.string().nullish(),
  user: User.nullish(),
});

const Payload = z.object({
  installation: z.object({ id: z.number() }).nullish(),
  repository: WebhookRepository,
  sender: User.nullish(),
  issue: Thread.optional(),
  pull_request: Thread.optional(),
  comment: z
    .object({
      id: z.number(),
      body: z.string().nullish(),
      user: User.nullish(),
      created_at: z.coerce.date().optional().catch(undefined),
      performed_via_github_app: z.object({ id: z.number() }).nullish(),
    })
    .optional(),
});

/** Nothing older is heard: GitHub sends again for three days, and what was heard is remembered for longer than this. */
const maxAgeMs = 7 * 24 * 60 * 60_000;

/** Words of a person in a thread, as the signed delivery has them. */
export interface IncomingComment {
  /** GitHub's id of the delivery, for the log. It is not signed: the same words may come under another. */
  deliveryId: string;
  /** Names what was said or happened, by signed fields alone, so that it counts once for ever. */
  key: string;
  thread: ThreadRef;
  isPullRequest: boolean;
  closed: boolean;
  locked: boolean;
  by: string;
  text: string;
  /** Undefined when it is the issue's own text. */
  commentId: number | undefined;
  /** The issue as it was when this was said, and when that was. */
  seen: { at: Date; title: string; body: string } | undefined;
}

/** Where a delivery came from. */
interface Source {
  thread: ThreadRef;
  /** Where it says the repository is. */
  place: ReportedLocation | undefined;
}

export type ThreadEvent =
  | ({ kind: "said"; utterance: IncomingComment } & Source)
  /** The thread was closed, or `forGood` is gone from here. */
  | ({ kind: "over"; deliveryId: string; key: string; by: string; forGood: boolean } & Source)
  | { kind: "ignored"; because: string };

export interface Delivery {
  /** The delivery's id. */
  id: string;
  /** The event's name, `issue_comment`. */
  name: string;
  payload: unknown;
}

/** Reads a delivery. Whoever is not surely a person speaking for themselves is not heard. */
export function readThreadEvent({ id, name, payload }: Delivery, appId: number, now: number = Date.now()): ThreadEvent {
  const parsed = Payload.safeParse(payload);
  if (!parsed.success) return ignored(`it is no ${name} as GitHub sends them`);

  const { installation, repository, sender, comment } = parsed.data;
  const issue = parsed.data.issue ?? parsed.data.pull_request;
  if (!installation) return ignored("it names no installation");
  if (!issue) return ignored("it names no issue or pull request");

  const thread = {
    ...(repository.id === undefined ? {} : { repositoryId: repository.id }),
    installationId: installation.id,
    owner: repository.owner.login,
    repo: repository.name,
    thread: issue.number,
  };
  const { action } = payload as { action?: unknown };
  const isOver = name !== "issue_comment" && action !== "opened";
  const at = comment ? comment.created_at : isOver ? issue.updated_at : issue.created_at;
  if (at && now - at.getTime() > maxAgeMs) return ignored("it is more than a week old");

  const place = comment ? `comment ${comment.id}` : `${thread.owner}/${thread.repo}#${thread.thread} ${action}`;
  const key = at ? `${place} ${at.toISOString()}` : id;
  const from = { thread, place: readLocation(repository, installation.id, at) };
  if (isOver) {
    const forGood = action === "deleted" || action === "transferred";
    return { kind: "over", deliveryId: id, key, by: sender?.login ?? "ghost", forGood, ...from };
  }

  const author = name === "issue_comment" ? comment?.user : issue.user;
  if (!author || !sender) return ignored("its author is gone");
  if (comment?.performed_via_github_app?.id === appId) return ignored("it is our own");
  if (!isHuman(author) || !isHuman(sender)) return ignored("its author is no person");
  if (author.id !== sender.id || author.login !== sender.login) return ignored("it was not sent by its author");

  const utterance = {
    deliveryId: id,
    key,
    thread,
    isPullRequest: issue.pull_request !== undefined && issue.pull_request !== null,
    closed: issue.state === "closed",
    locked: issue.locked === true,
    by: author.login,
    text: (comment ? comment.body : issue.body) ?? "",
    commentId: comment?.id,
    seen: at && { at, title: issue.title ?? "", body: issue.body ?? "" },
  };
  return { kind: "said", utterance, ...from };
}

function isHuman({ login, type = "User" }: User): boolean {
  return type === "User" && !login.endsWith("[bot]") && login.toLowerCase() !== "ghost";
}

function ignored(because: string): ThreadEvent {
  return { kind: "ignored", because };
}
