import type { DeploymentPolicy } from "#config/deployment-policy.ts";
import type { RunSpec } from "#domain/run.ts";
import type { Models } from "#models/models.ts";
import type { FrontEnd, PostedComment, PostOptions } from "#runtime/front-end.ts";
import type { EffectResult, RunEnvironment } from "#runtime/run-environment.ts";
import type { EffectOf, RuntimeEffect } from "#runtime/runtime-effect.ts";
import type { ActiveRun } from "#runtime/scheduler/active-run.ts";
import type { RunObserver } from "#runtime/scheduler/run-observer.ts";
import { type Effect, restoredPost, type Store } from "#runtime/store/store.ts";

/** Performs one kind of effect. After a crash it is called again for the same key, with `effect.attempts` above 1. */
export interface EffectHandler<Request extends RuntimeEffect = RuntimeEffect> {
  /** Returns the result. Throws `PostponedError` to be called again later, and the reason if `signal` is aborted. */
  perform(effect: Effect<Request>, run: ActiveRun, signal: AbortSignal): Promise<EffectResult>;
  /** Returns the result to store after the last attempt has failed. */
  onFailure(effect: Effect<Request>, run: ActiveRun, error: unknown): Promise<EffectResult>;
  /** The maximum number of attempts if something outside this process fails. */
  maxAttempts: number;
  /** The attempts if GitHub answers 403 or 404, as it may briefly after a creation. Default: 1. */
  maxRefusals?: number;
}

/** One handler for each kind of effect. */
export type EffectHandlers = { [Kind in RuntimeEffect["kind"]]: EffectHandler<EffectOf<Kind>> };

/** The services of all handlers. Each call also gets the resources of its run. */
export interface EffectServices {
  store: Store;
  models: Models;
  frontEnd: FrontEnd;
  catalog: RunEnvironment["catalog"];
  observer: Pick<Required<RunObserver>, "modelCalled">;
  now: () => number;
  /** The time that an approval stays open. */
  approvalMs: number;
  /** The minimum time between two edits of a status comment. */
  statusIntervalMs: number;
  /** Undefined for a program that runs its own workers. */
  policy?: DeploymentPolicy | undefined;
}

/** Thrown by a handler that has not done anything yet and wants to be called again at `until`. */
export class PostponedError extends Error {
  /** Milliseconds since 1970. */
  readonly until: number;
  /** A sentence for people, if something outside this process has to respond first. */
  readonly reason: string | undefined;

  constructor(until: number, { reason, cause }: { reason?: string; cause?: unknown } = {}) {
    super("Postponed", { cause });
    this.until = until;
    this.reason = reason;
  }
}

/** A comment to post: the number of this attempt, and the run that it belongs to. */
interface NamedPost extends Pick<Effect, "attempts"> {
  name: string;
  spec: Pick<RunSpec, "createdAt">;
}

/** Posts a comment under a name, or edits the previous one, and returns the result to store. */
export async function post(
  store: Pick<Store, "findPost">,
  { name, ...attempt }: NamedPost,
  show: (options: PostOptions) => Promise<number>,
): Promise<EffectResult> {
  const commentId = (await store.findPost(name))?.commentId;
  const isFirstAttempt = await isFirst(store, attempt);
  return { posts: [{ name, commentId: await show({ name, commentId, isFirstAttempt }) }] };
}

/** False if the thread may have a comment that the store does not know: from an earlier attempt, or from after a restored backup. */
export async function isFirst(
  store: Pick<Store, "findPost">,
  { attempts, spec }: Omit<NamedPost, "name">,
): Promise<boolean> {
  if (attempts > 1) return false;
  const restored = await store.findPost(restoredPost.name);
  return restored === undefined || spec.createdAt > restored.updatedAt;
}

interface Request extends NamedPost {
  /** A comment that somebody edited. Unless it was replaced already, a new one is posted. */
  replaces?: number | undefined;
  /** The revision of the approval that is shown. */
  revision?: number | undefined;
  /** Another name by which the request can be found. */
  alias?: string | undefined;
}

/** Posts a request like `post`, and returns with it what has to stay as it was posted. */
export async function postRequest(
  store: Pick<Store, "findPost">,
  { name, replaces, revision = 0, alias, ...attempt }: Request,
  show: (options: PostOptions) => Promise<PostedComment[]>,
): Promise<EffectResult> {
  const known = await store.findPost(name);
  const isReplaced = replaces !== undefined && known?.commentId === replaces;
  const comments = await show({
    name,
    commentId: isReplaced ? undefined : known?.commentId,
    shown: known?.shown?.comments,
    isFirstAttempt: await isFirst(store, attempt),
    ...(isReplaced && { replaces }),
  });
  const commentId = comments.at(-1)?.id ?? 0;
  const names = alias === undefined ? [name] : [name, alias];
  return { posts: names.map((name) => ({ name, commentId, shown: { comments, revision } })) };
}
