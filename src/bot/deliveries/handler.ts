import type { z } from "zod";
import type { CommentLinks } from "#bot/render/render-status.ts";
import type { OpenGitHub, RepositoryRef } from "#domain/github.ts";
import type { RunView } from "#domain/run.ts";
import type { Runs, ThreadRef } from "#runtime/runs.ts";
import type { DeliveryStore } from "#runtime/store/delivery-store.ts";
import type { ThreadPayload } from "./payloads.ts";

/** The deliveries that concern this deployment. */
export interface DeliveryScope {
  /** The id of this App; undefined in a job of GitHub Actions, whose token belongs to GitHub's own App. */
  appId: number | undefined;
  serves: (repository: { owner: string; repo: string }) => boolean;
}

export interface HandlerServices extends DeliveryScope {
  openGitHub: OpenGitHub;
  runs: () => Runs;
  /** Stores a delivery for later; false when one with this key was stored before. */
  saveDelivery: DeliveryStore["saveDelivery"];
  /** Comments that another app posted with a person's token may start and steer workers. They never decide anything. */
  allowAppComments: boolean;
  linksTo: (view: RunView) => Promise<CommentLinks>;
  redact: (text: string) => string;
  sanitize: (text: string) => string;
  log: { info: (message: string) => void };
  /** Tracks work in the background until it settles. */
  inBackground: (work: Promise<unknown>) => void;
}

export interface DeliveryContext extends HandlerServices {
  deliveryId: string;
  /** The number of times the delivery was processed, including this one. Above 1: it may have been executed already. */
  attempts: number;
}

/** The reason why a delivery is not executed: GitHub does not answer and it is retried, or it is not retried. */
export type DeliveryProblem =
  /** `retryAt`: GitHub asks for no request before this time; milliseconds since 1970. */
  { kind: "waiting"; retryAt: number | undefined } | { kind: "outage" } | { kind: "error" };

/** Handles one kind of webhook event. */
export interface Handler {
  /** Reads what the handler needs and chooses the queue, or returns why the delivery is ignored. Does no I/O. */
  read(payload: unknown, scope: DeliveryScope): { payload: unknown; queue: string } | { ignored: string };
  /** Resolves when everything the delivery asks for is stored or done. May be called again for the same delivery. */
  handle(payload: unknown, context: DeliveryContext): Promise<void>;
  /** Reports a problem to the person whom the delivery is from. Called again for each attempt that has to wait. */
  report(payload: unknown, context: DeliveryContext, problem: DeliveryProblem): Promise<void>;
}

export function defineHandler<Payload>(
  schema: z.ZodType<Payload>,
  handler: {
    queue: (payload: Payload) => string;
    /** Returns why a delivery is ignored. */
    ignore?: (payload: Payload, scope: DeliveryScope) => string | undefined;
    handle: (payload: Payload, context: DeliveryContext) => Promise<void>;
    report?: (payload: Payload, context: DeliveryContext, problem: DeliveryProblem) => Promise<void>;
  },
): Handler {
  return {
    read: (payload, scope) => {
      const parsed = schema.safeParse(payload);
      if (!parsed.success) return { ignored: "its payload does not have the expected shape" };
      const ignored = handler.ignore?.(parsed.data, scope);
      return ignored === undefined ? { payload: parsed.data, queue: handler.queue(parsed.data) } : { ignored };
    },
    handle: (payload, context) => handler.handle(schema.parse(payload), context),
    report: async (payload, context, problem) => handler.report?.(schema.parse(payload), context, problem),
  };
}

/** GitHub redelivers for three days, and keys of handled events are kept for longer than this. */
const maxAgeMs = 7 * 24 * 60 * 60_000;

/** GitHub guarantees no order: what happened after an event that arrives later than this may have been processed already. */
const maxOrderedMs = 10_000;

export function mayBeOutOfOrder(at: Date | undefined): boolean {
  return at !== undefined && Date.now() - at.getTime() > maxOrderedMs;
}

/** Returns the reason why an event of this thread is ignored, for any kind of event; undefined if it is not. */
export function ignoreThread(
  { repository }: Pick<ThreadPayload, "repository">,
  at: Date | undefined,
  { serves }: DeliveryScope,
): string | undefined {
  if (at && Date.now() - at.getTime() > maxAgeMs) return "it is more than a week old";
  const [owner, repo] = [repository.owner.login, repository.name];
  return serves({ owner, repo }) ? undefined : `${owner}/${repo} is not on the list of repositories`;
}

export function repositoryOf({ installation, repository }: Omit<ThreadPayload, "action">): Omit<ThreadRef, "thread"> {
  return {
    ...(repository.id === undefined ? {} : { repositoryId: repository.id }),
    installationId: installation.id,
    owner: repository.owner.login,
    repo: repository.name,
  };
}

export function threadOf(payload: Omit<ThreadPayload, "action">, number: number): ThreadRef {
  return { ...repositoryOf(payload), thread: number };
}

/** Identifies an event of a thread by signed fields alone; undefined where the payload has no time. */
export function threadEventKey(
  { action, repository }: Pick<ThreadPayload, "action"> & { repository: { name: string; owner: { login: string } } },
  number: number,
  at: Date | undefined,
): string | undefined {
  return at && `${repository.owner.login}/${repository.name}#${number} ${action} ${at.toISOString()}`;
}

/** Deliveries of one thread are processed in order. */
export function queueOf(payload: Omit<ThreadPayload, "action">, number: number): string {
  return queueIn(repositoryOf(payload), number);
}

/** Returns the queue for events of a repository that belong to no thread. */
export function repositoryQueue(payload: Omit<ThreadPayload, "action">): string {
  return queueOf(payload, 0);
}

/** Returns the queue of a thread. Further words make it a queue of another kind; `tenantsOf` reads its beginning. */
export function queueIn({ installationId, repositoryId, owner, repo }: RepositoryRef, thread: number): string {
  return `${installationId} ${repositoryId ?? `${owner}/${repo}`}#${thread}`;
}
