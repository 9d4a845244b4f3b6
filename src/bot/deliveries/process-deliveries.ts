import { setTimeout as wait } from "node:timers/promises";
import { z } from "zod";
import { isOutage } from "#bot/github/refusals.ts";
import { DatabaseError, messageOf, OutageError, UserError } from "#domain/errors.ts";
import { GitHubRefusalError } from "#domain/github.ts";
import { LeaseLostError, withLease, withLogContext } from "#domain/work-context.ts";
import { type Delivery, type DeliveryQuery, type DeliveryStore, tenantsOf } from "#runtime/store/delivery-store.ts";
import type { DeliveryContext, DeliveryProblem, Handler, HandlerServices } from "./handler.ts";
import { findStoredHandler } from "./handlers.ts";

/** A claim is renewed while its delivery is processed; without that, another process takes over. */
const leaseMs = 15_000;
/** The interval between searches for deliveries of a process that died. */
const pollIntervalMs = 1_000;
const maxConcurrent = 200;
/** More deliveries are started in later turns of the event loop, so that new ones are acknowledged in between. */
const startsPerTurn = 8;

const firstBackoffMs = 1_000;
const maxBackoffMs = 60_000;
/** A delivery is retried this long while GitHub does not answer. */
const maxOutageMs = 24 * 60 * 60_000;
/** The time after its arrival in which a delivery that GitHub refuses with 403 is tried again, while the others of its queue wait. */
const maxRefusedMs = 3 * 60_000;
/** After this many failed attempts, or before a long pause, the person is told that GitHub does not answer, as soon as that can be posted. */
const attemptsBeforeNotice = 4;
/** Other failures are bugs. Those while the database cannot be used do not count. */
const maxFailures = 6;

const Content = z.object({ id: z.string(), event: z.string(), payload: z.unknown(), notBefore: z.number().default(0) });

const Located = z.object({ repository: z.object({ full_name: z.string() }).optional() });

export interface DeliveryProcessorOptions {
  store: DeliveryStore;
  services: HandlerServices;
  /** Called before anything leaves the process; rejects when another process has taken over. Default: the claim alone decides. */
  confirmLease?: (() => Promise<void>) | undefined;
  onError: (message: string, error: unknown) => void;
}

/**
 * Processes stored deliveries: those of one queue in order, others at the same time. A delivery that fails is retried; one
 * whose process died is processed again, so handlers are idempotent.
 */
export class DeliveryProcessor {
  readonly #store: DeliveryStore;
  readonly #services: HandlerServices;
  readonly #confirmLease: () => Promise<void>;
  readonly #onError: DeliveryProcessorOptions["onError"];
  readonly #running = new Map<Delivery, Promise<void>>();
  #claiming: Promise<void> | undefined;
  #isNotified = false;
  #timer: NodeJS.Timeout | undefined;
  #isStopped = true;

  constructor({ store, services, confirmLease = async () => {}, onError }: DeliveryProcessorOptions) {
    this.#store = store;
    this.#services = services;
    this.#confirmLease = confirmLease;
    this.#onError = onError;
  }

  start(): void {
    this.#isStopped = false;
    this.notify();
  }

  /** Processes deliveries that may be due. Returns at once. */
  notify(): void {
    this.#isNotified = true;
    this.#claiming ??= this.#claimAll().finally(() => {
      this.#claiming = undefined;
    });
  }

  /** Claims nothing more, and waits at most this long for deliveries that are being processed; the others are processed later. */
  async stop(graceMs: number): Promise<void> {
    this.#isStopped = true;
    clearTimeout(this.#timer);
    await Promise.race([this.#settle(), wait(graceMs, undefined, { ref: false })]);
  }

  /** Resolves when no delivery is due, or when it was stopped. */
  async idle(): Promise<void> {
    do {
      this.notify();
      await this.#settle();
    } while (!this.#isStopped && ((await this.#store.nextDeliveryInMs()) ?? Number.POSITIVE_INFINITY) <= 0);
  }

  async #settle(): Promise<void> {
    while (this.#claiming || this.#running.size > 0) await Promise.all([this.#claiming, ...this.#running.values()]);
  }

  async #claimAll(): Promise<void> {
    let nextInMs: number | undefined;
    try {
      let areAllClaimed = false;
      while (this.#isNotified) {
        this.#isNotified = false;
        areAllClaimed = await this.#claimDue();
      }
      // Otherwise the end of a delivery notifies.
      if (areAllClaimed) nextInMs = await this.#store.nextDeliveryInMs();
    } catch (error) {
      this.#onError("Deliveries could not be read from the store.", error);
    }
    clearTimeout(this.#timer);
    if (this.#isStopped) return;
    const delayMs = Math.min(Math.max(nextInMs ?? Number.POSITIVE_INFINITY, 50), pollIntervalMs);
    this.#timer = setTimeout(() => this.notify(), delayMs);
  }

  /** Claims what is due. Returns false if something may be left, for which a delivery has to end first. */
  async #claimDue(): Promise<boolean> {
    let started = 0;
    while (!this.#isStopped) {
      const selection = selectDeliveries([...this.#running.keys()].map(({ queue }) => tenantsOf(queue)));
      if (!selection) return false;
      const claimed = await this.#store.claimDeliveries({ leaseMs, ...selection });
      for (const delivery of claimed) {
        this.#start(delivery);
        started += 1;
        if (started % startsPerTurn === 0) await new Promise<void>((resolve) => setImmediate(resolve));
      }
      const { installations, repositories } = selection.except;
      if (claimed.length < selection.limit) return installations.length + repositories.length === 0;
    }
    return false;
  }

  #start(delivery: Delivery): void {
    const running = this.#process(delivery)
      .catch((error) => this.#onError(`Delivery ${delivery.key} could not be completed.`, error))
      .finally(() => {
        this.#running.delete(delivery);
        this.notify();
      });
    this.#running.set(delivery, running);
  }

  async #process(delivery: Delivery): Promise<void> {
    const { key, attempts } = delivery;
    const content = Content.parse(delivery.content);
    const earlyByMs = content.notBefore - Date.now();
    if (earlyByMs > 0) return this.#store.postponeDelivery(delivery, earlyByMs);
    const handler = findStoredHandler(content.event);
    // A newer version stored it and may still process it.
    if (!handler) return this.#store.postponeDelivery(delivery, maxBackoffMs);

    const renewal = setInterval(() => {
      this.#store.postponeDelivery(delivery, leaseMs).catch(() => undefined);
    }, leaseMs / 3);
    const context = { ...this.#services, deliveryId: content.id, attempts };
    const { repository } = Located.safeParse(content.payload).data ?? {};
    const fields = { delivery: content.id, ...(repository && { repository: repository.full_name }) };
    let isHandled = false;
    const confirm = async () => {
      // A reaction may be sent later.
      if (!isHandled && !(await this.#store.holdsDelivery(delivery))) throw new LeaseLostError();
      await this.#confirmLease();
    };
    const attempt = () =>
      handler.handle(content.payload, context).then(
        () => undefined,
        (error: unknown) => {
          if (error instanceof LeaseLostError) throw error;
          return this.#retryAfter(delivery, error, { handler, content, context });
        },
      );
    try {
      const retry = await withLease(confirm, () => withLogContext(fields, attempt));
      clearInterval(renewal);
      if (!retry) {
        isHandled = true;
        await this.#store.completeDelivery(key);
      } else await this.#store.postponeDelivery(delivery, retry.delayMs, { hasFailed: retry.hasFailed });
    } catch (error) {
      // It is due again, for any process.
      if (!(error instanceof LeaseLostError)) throw error;
    } finally {
      clearInterval(renewal);
    }
  }

  /** Returns after what time to retry a delivery that failed, and whether the failure counts; undefined when it is not retried. */
  async #retryAfter(
    { attempts, failures, receivedAt }: Delivery,
    error: unknown,
    { handler, content, context }: { handler: Handler; content: z.infer<typeof Content>; context: DeliveryContext },
  ): Promise<{ delayMs: number; hasFailed: boolean } | undefined> {
    const report = (problem: DeliveryProblem) =>
      handler.report(content.payload, context, problem).catch((reason: Error) => {
        if (reason instanceof LeaseLostError) throw reason;
        this.#services.log.info(`The failure of delivery ${content.id} could not be reported: ${reason.message}`);
      });
    const backoffMs = Math.min(firstBackoffMs * 2 ** (attempts - 1), maxBackoffMs);
    const ageMs = Date.now() - Math.max(receivedAt, content.notBefore);
    // GitHub refuses some requests for a moment, such as while a permission is being accepted.
    if (error instanceof GitHubRefusalError && error.status === 403 && ageMs < maxRefusedMs) {
      this.#services.log.info(`Delivery ${content.id} is retried: ${error.message}`);
      return { delayMs: backoffMs, hasFailed: false };
    }
    if (error instanceof UserError) {
      this.#services.log.info(`Delivery ${content.id} was refused: ${error.message}`);
      return undefined;
    }
    const retryAt = error instanceof OutageError ? error.retryAt : undefined;
    const delayMs = Math.max(backoffMs, (retryAt ?? 0) - Date.now());
    if (error instanceof DatabaseError) {
      this.#services.log.info(`Delivery ${content.id} is retried: ${error.message}`);
      return { delayMs, hasFailed: false };
    }
    if (isOutage(error)) {
      this.#services.log.info(`Delivery ${content.id} is retried: ${messageOf(error)}`);
      if (ageMs + delayMs > maxOutageMs) {
        this.#onError(`Delivery ${content.id} was dropped: GitHub did not answer for a day.`, error);
        await report({ kind: "outage" });
        return undefined;
      }
      if (attempts >= attemptsBeforeNotice || delayMs > maxBackoffMs) await report({ kind: "waiting", retryAt });
      return { delayMs, hasFailed: false };
    }
    this.#onError(`Delivery ${content.id} failed.`, error);
    if (failures + 1 < maxFailures) return { delayMs, hasFailed: true };
    await report({ kind: "error" });
    return undefined;
  }
}

/**
 * Selects what to claim in addition to the deliveries that are being processed. No installation gets more than its equal share of
 * the slots, and no repository more than its share of its installation's, counting one share for the next that has a
 * delivery. So a burst of one keeps no other waiting. Returns undefined if every slot is taken.
 */
function selectDeliveries(
  running: readonly ReturnType<typeof tenantsOf>[],
): Required<Pick<DeliveryQuery, "limit" | "except">> | undefined {
  const slots = maxConcurrent - running.length;
  if (slots <= 0) return undefined;
  const byInstallation = Map.groupBy(running, ({ installation }) => installation);
  const installations = divide(maxConcurrent, byInstallation);
  const repositories = [[], ...byInstallation.values()].map((deliveries) =>
    divide(
      installations.share,
      Map.groupBy(deliveries, ({ repository }) => repository),
    ),
  );
  return {
    limit: Math.min(slots, installations.left, ...repositories.map(({ left }) => left)),
    except: { installations: installations.full, repositories: repositories.flatMap(({ full }) => full) },
  };
}

/** Divides slots. Returns the names that have used up their share, and the slots that each of the others has left. */
function divide(
  slots: number,
  taken: ReadonlyMap<string, readonly unknown[]>,
): { share: number; full: string[]; left: number } {
  const share = Math.ceil(slots / (Math.max(1, taken.size) + 1));
  const full = [...taken].filter(([, { length }]) => length >= share).map(([name]) => name);
  const others = [...taken.values()].map(({ length }) => length).filter((length) => length < share);
  return { share, full, left: share - Math.max(0, ...others) };
}
