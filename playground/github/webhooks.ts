import { createHmac, randomUUID } from "node:crypto";
import { describeEvent, describeInstallationEvent } from "./webhook-payloads.ts";
import type { Installation, InstallationEvent, WebhookEvent, World } from "./world.ts";

/** GitHub waits this long for a response. */
const timeoutMs = 10_000;

export interface WebhookTarget {
  url: string;
  secret: string;
}

/** One attempt to deliver an event to the app. */
export interface WebhookDelivery {
  id: number;
  /** Shared by a delivery and its redeliveries. */
  guid: string;
  event: string;
  action: string | undefined;
  repositoryId: number | undefined;
  installationId: number;
  /** The exact bytes that were signed. */
  payload: string;
  deliveredAt: Date;
  /** Seconds. */
  duration: number;
  redelivery: boolean;
  /** The HTTP status; 0 when there was no response, undefined while the attempt is running. */
  statusCode: number | undefined;
}

type NewDelivery = Omit<WebhookDelivery, "id" | "deliveredAt" | "duration" | "statusCode">;

/** Delivers signed webhooks as GitHub does: once each, and again only on request. */
export class Webhooks {
  readonly deliveries: WebhookDelivery[] = [];
  /** The receiver of the next deliveries; undefined turns them off. */
  target: WebhookTarget | undefined;
  readonly #world: World;
  readonly #pending = new Set<Promise<void>>();

  constructor(world: World, target: WebhookTarget | undefined) {
    this.#world = world;
    this.target = target;
  }

  /** Delivers an event of a repository, if the app is installed there and subscribed to the event. */
  emit(event: WebhookEvent): void {
    const { target } = this;
    const { installation } = event.repository;
    // Without a receiver, do not even create the payload: nothing would wait for its reads.
    if (!target || !installation || installation.suspended || !this.#world.app.events.includes(event.event)) return;

    const repositoryId = event.repository.id;
    this.#post(target, describeEvent(this.#world, event, installation), { ...event, installation, repositoryId });
  }

  emitInstallationEvent(event: InstallationEvent): void {
    const { target } = this;
    if (!target) return;
    const payload = Promise.resolve(describeInstallationEvent(this.#world, event));
    this.#post(target, payload, { ...event, repositoryId: undefined });
  }

  /** Sends the same payload again with the same guid. Returns undefined for an unknown delivery. */
  redeliver(id: number): WebhookDelivery | undefined {
    const original = this.deliveries.find((delivery) => delivery.id === id);
    if (!original || !this.target) return undefined;

    const { guid, event, action, repositoryId, installationId, payload } = original;
    const attempt = this.#record({ guid, event, action, repositoryId, installationId, payload, redelivery: true });
    this.#track(this.#send(this.target, attempt));
    return attempt;
  }

  /** Resolves when no delivery is running. */
  async settled(): Promise<void> {
    while (this.#pending.size > 0) await Promise.all(this.#pending);
  }

  #post(
    target: WebhookTarget,
    payload: Promise<object>,
    {
      event,
      action,
      repositoryId,
      installation,
    }: Pick<WebhookDelivery, "event" | "action" | "repositoryId"> & {
      installation: Installation;
    },
  ): void {
    const header = { guid: randomUUID(), event, action, repositoryId, installationId: installation.id };
    const deliver = async () => {
      const content = JSON.stringify(await payload);
      await this.#send(target, this.#record({ ...header, payload: content, redelivery: false }));
    };
    this.#track(deliver());
  }

  #record(delivery: NewDelivery): WebhookDelivery {
    const attempt = { ...delivery, id: this.#world.nextId(), deliveredAt: new Date(), duration: 0 };
    const recorded: WebhookDelivery = { ...attempt, statusCode: undefined };
    this.deliveries.push(recorded);
    return recorded;
  }

  #track(work: Promise<void>): void {
    const settled = work.finally(() => this.#pending.delete(settled));
    this.#pending.add(settled);
  }

  async #send(target: WebhookTarget, attempt: WebhookDelivery): Promise<void> {
    const { app, url } = this.#world;
    const signature = createHmac("sha256", target.secret).update(attempt.payload).digest("hex");
    attempt.statusCode = await fetch(target.url, {
      method: "POST",
      headers: {
        "Content-Type": "application/json",
        "User-Agent": "GitHub-Hookshot/golem-forge-playground",
        "X-GitHub-Delivery": attempt.guid,
        "X-GitHub-Event": attempt.event,
        "X-GitHub-Hook-ID": "1",
        "X-GitHub-Hook-Installation-Target-ID": String(app.id),
        "X-GitHub-Hook-Installation-Target-Type": "integration",
        "X-GitHub-Enterprise-Host": new URL(url).host,
        "X-Hub-Signature-256": `sha256=${signature}`,
      },
      body: attempt.payload,
      signal: AbortSignal.timeout(timeoutMs),
    }).then(
      async (response) => {
        await response.arrayBuffer().catch(() => undefined);
        return response.status;
      },
      () => 0,
    );
    attempt.duration = (Date.now() - attempt.deliveredAt.getTime()) / 1000;
  }
}
