import { createHmac, randomUUID } from "node:crypto";
import { showInstallation } from "./shapes/app.ts";
import { nodeId } from "./shapes/node-id.ts";
import { isPull, showPull, showReviewComment } from "./shapes/pull-request.ts";
import { fullName, showRepository } from "./shapes/repository.ts";
import { showComment, showIssue, showLabel } from "./shapes/thread.ts";
import { showUser } from "./shapes/user.ts";
import type { Installation, InstallationEvent, WebhookEvent, World } from "./world.ts";

/** GitHub waits this long for an answer, in milliseconds. */
const timeoutMs = 10_000;

export interface Webhook {
  url: string;
  secret: string;
}

/** One attempt to tell the app. */
export interface WebhookDelivery {
  id: number;
  /** The same for a delivery and all its redeliveries. */
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
  /** The HTTP status; 0 when nobody answered, undefined while it is under way. */
  statusCode: number | undefined;
}

export interface Webhooks {
  readonly deliveries: readonly WebhookDelivery[];
  /** Where deliveries go; undefined while they are turned off. */
  readonly url: string | undefined;
  emit(event: WebhookEvent): void;
  emitInstallationEvent(news: InstallationEvent): void;
  /** Sends the same payload again under the same guid. Undefined for an unknown delivery. */
  redeliver(id: number): WebhookDelivery | undefined;
  /** Where deliveries go from now on; undefined turns them off. */
  setTarget(hook: Webhook | undefined): void;
  /** Resolves when no delivery is under way. */
  settled(): Promise<void>;
}

/** Sends signed webhooks as GitHub does: once each, never again by itself. */
export function createWebhooks({ world, hook: first }: { world: World; hook: Webhook | undefined }): Webhooks {
  const deliveries: WebhookDelivery[] = [];
  const underWay = new Set<Promise<void>>();
  let hook = first;

  function track(work: Promise<void>): void {
    const settled = work.finally(() => underWay.delete(settled));
    underWay.add(settled);
  }

  function tell(event: WebhookEvent): void {
    const { installation } = event.repository;
    if (!installation || installation.suspended || !world.app.events.includes(event.event)) return;

    // The parts that git has to be asked for come later; the rest is written down as it is now.
    post(describe(world, event, installation), {
      ...event,
      installation,
      repositoryId: event.repository.id,
    });
  }

  function tellOfInstallation(news: InstallationEvent): void {
    post(Promise.resolve(describeInstallationNews(world, news)), { ...news, repositoryId: undefined });
  }

  function post(
    payload: Promise<object>,
    about: { event: string; action: string | undefined; repositoryId: number | undefined; installation: Installation },
  ): void {
    if (!hook) return;
    const target = hook;
    const { event, action, repositoryId, installation } = about;
    const what = {
      guid: randomUUID(),
      event,
      action,
      repositoryId,
      installationId: installation.id,
      redelivery: false,
    };
    track(payload.then((content) => send(target, { ...what, payload: JSON.stringify(content) })));
  }

  function record(delivery: Omit<WebhookDelivery, "id" | "deliveredAt" | "duration" | "statusCode">) {
    const attempt = { ...delivery, id: world.nextId(), deliveredAt: new Date(), duration: 0, statusCode: undefined };
    deliveries.push(attempt);
    return attempt as WebhookDelivery;
  }

  async function send(target: Webhook, what: Parameters<typeof record>[0], attempt = record(what)): Promise<void> {
    const { app } = world;
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
        "X-GitHub-Enterprise-Host": new URL(world.url).host,
        "X-Hub-Signature-256": `sha256=${createHmac("sha256", target.secret).update(attempt.payload).digest("hex")}`,
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

  function redeliver(id: number): WebhookDelivery | undefined {
    const original = deliveries.find((delivery) => delivery.id === id);
    if (!original || !hook) return undefined;

    const { guid, event, action, repositoryId, installationId, payload } = original;
    const attempt = record({ guid, event, action, repositoryId, installationId, payload, redelivery: true });
    track(send(hook, attempt, attempt));
    return attempt;
  }

  async function settled(): Promise<void> {
    while (underWay.size > 0) await Promise.all(underWay);
  }

  return {
    deliveries,
    get url() {
      return hook?.url;
    },
    emit: tell,
    emitInstallationEvent: tellOfInstallation,
    redeliver,
    setTarget: (target) => {
      hook = target;
    },
    settled,
  };
}

/** The payload of a webhook in GitHub's shape. */
async function describe(world: World, event: WebhookEvent, { id }: Installation): Promise<Record<string, unknown>> {
  const { repository, thread, comment, reviewComment, label, action, changes, push } = event;
  const payload = {
    ...(action && { action }),
    ...(thread && !isPull(thread) && { issue: showIssue(world, repository, thread) }),
    ...(thread && comment && { issue: showIssue(world, repository, thread) }),
    ...(comment && { comment: showComment(world, repository, comment) }),
    ...(reviewComment && { comment: showReviewComment(world, repository, reviewComment) }),
    ...(label && { label: showLabel(world, repository, label) }),
    ...(changes && { changes }),
    ...(push && describePush(world, event, push)),
    repository: showRepository(world, repository),
    ...(repository.owner.type === "Organization" && {
      organization: describeOrganization(world, repository.owner.login),
    }),
    sender: showUser(world, event.sender),
    installation: { id, node_id: nodeId("Installation", id) },
  };
  if (!thread || !isPull(thread) || comment) return payload;

  return { ...payload, number: thread.number, pull_request: await showPull(world, repository, thread) };
}

function describeInstallationNews(
  world: World,
  { event, action, installation, sender, repositories }: InstallationEvent,
) {
  const listed = repositories.map((repository) => ({
    id: repository.id,
    node_id: nodeId("Repository", repository.id),
    name: repository.name,
    full_name: fullName(repository),
    private: repository.private,
  }));
  const [added, removed] = action === "added" ? [listed, []] : [[], listed];
  return {
    action,
    installation: showInstallation(world, installation),
    ...(event === "installation"
      ? { repositories: listed, requester: null }
      : {
          repository_selection: "selected",
          repositories_added: added,
          repositories_removed: removed,
          requester: null,
        }),
    sender: showUser(world, sender),
  };
}

function describePush(world: World, { repository, sender }: WebhookEvent, push: NonNullable<WebhookEvent["push"]>) {
  const noCommit = /^0+$/;
  return {
    ref: push.ref,
    before: push.before,
    after: push.after,
    created: noCommit.test(push.before),
    deleted: noCommit.test(push.after),
    forced: false,
    base_ref: null,
    compare: `${world.url}/${fullName(repository)}/compare/${push.before}...${push.after}`,
    commits: [],
    head_commit: null,
    pusher: { name: sender.login },
  };
}

function describeOrganization(world: World, login: string) {
  const organization = world.users.get(login.toLowerCase());
  const url = `${world.url}/api/v3/orgs/${login}`;
  return {
    login,
    id: organization?.id ?? 0,
    node_id: nodeId("Organization", organization?.id ?? 0),
    url,
    repos_url: `${url}/repos`,
    events_url: `${url}/events`,
    hooks_url: `${url}/hooks`,
    issues_url: `${url}/issues`,
    members_url: `${url}/members{/member}`,
    public_members_url: `${url}/public_members{/member}`,
    avatar_url: `${world.url}/-/avatars/${organization?.id ?? 0}`,
    description: "",
  };
}
