import { randomUUID } from "node:crypto";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach } from "vitest";
import { defaultPolicy } from "#config/deployment-policy.ts";
import type { Approval } from "#domain/approval.ts";
import type { RunEvent } from "#domain/events.ts";
import type { RunSpec } from "#domain/run.ts";
import type { WorkerContext } from "#machines/worker-context.ts";
import type { WorkerSnapshot } from "#machines/worker-snapshot.ts";
import { initialRun } from "#runtime/apply-events.ts";
import { createLiveOutput } from "#runtime/scheduler/live-output.ts";
import { RunService } from "#runtime/service/run-service.ts";
import { openSqliteStore } from "#runtime/store/sqlite/open-sqlite-store.ts";
import type { Store } from "#runtime/store/store.ts";
import { RunViewReader } from "#runtime/views/run-view-reader.ts";
import { createRedactor } from "#text/redact.ts";
import { loadRunPages } from "#web/load-run-pages.ts";
import { createRunLinks, deriveKey } from "#web/run-links.ts";
import { createSealedCookies, createSessions, sessionCookie } from "#web/sessions.ts";
// The pages load it in a test, and mutants of its constants would be tested with that one only.
import "#web/sign-in.ts";
import { accountId, type FakeGitHubOptions, fakeGitHub } from "./fake-github.ts";
import { sampleApproval, sampleSpec } from "./store-samples.ts";

const webhookSecret = "the secret of a webhook";
export const heldSecret = "hunter2-hunter2-hunter2";

export interface WebWorldOptions {
  github?: FakeGitHubOptions;
  /** The repositories that the deployment serves. Default: all. */
  repositories?: string[];
  /** False if the deployment has no OAuth client. */
  signIn?: boolean;
  /** The address of GitHub for OAuth requests, and the client registered there. */
  githubUrl?: string;
  client?: { clientId: string; clientSecret: string };
  /** The store of another process. Default: a new one. */
  store?: Store;
  /** Default: any free port. */
  port?: number;
}

/** Starts an HTTP server for run pages, over a real store and the runtime's real interface. No scheduler executes the runs. */
async function webWorld({
  github: githubOptions,
  repositories,
  signIn = true,
  githubUrl,
  client,
  port = 0,
  store: shared,
}: WebWorldOptions) {
  const store = shared ?? (await openSqliteStore(":memory:"));
  const { github, permissions, issue } = fakeGitHub({
    permissions: { mia: "admin", tom: "read" },
    ...githubOptions,
  });
  const outage = { active: false };
  const openGitHub = () => ({
    ...github,
    getPermission: async (login: string) => {
      if (outage.active) throw new Error("GitHub does not answer");
      return github.getPermission(login);
    },
    getRepository: async () => {
      if (outage.active) throw new Error("GitHub does not answer");
      return github.getRepository();
    },
  });
  const clock = { offset: 0 };
  const now = () => Date.now() + clock.offset;
  const live = createLiveOutput();
  const errors: unknown[] = [];
  const runs = new RunService({
    store,
    scheduler: { wake: () => {} } as never,
    catalog: undefined as never,
    models: { findModelProblem: (name: string) => (name === "openai:b" ? undefined : `There is no ${name}.`) } as never,
    openGitHub,
    now,
    runsPerHour: { person: 20, repository: 100 },
    policy: defaultPolicy,
  });
  let answer: ReturnType<typeof loadRunPages>["answer"] = () => false;
  const server = createServer((request, response) => {
    if (!answer(request, response)) response.writeHead(418).end();
  });
  await new Promise<void>((resolve) => server.listen(port, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const at = githubUrl ?? "https://github.example";
  const pages = loadRunPages({
    config: {
      app: { webhookSecret },
      page: { url, signIn: signIn ? (client ?? { clientId: "Iv1.a", clientSecret: "s" }) : undefined },
      github: {
        webUrl: at,
        apiUrl: `${at}/api/v3`,
        writeIntervalMs: 0,
        repositories,
        allowAppComments: false,
      },
    },
    views: () => views,
    runs: () => runs,
    openGitHub,
    onError: (error) => errors.push(error),
    now,
  });
  const views = new RunViewReader({ store, live, redact: createRedactor([heldSecret]), now });
  answer = pages.answer;
  const links = createRunLinks(webhookSecret);
  const cookies = createSealedCookies({ key: deriveKey(webhookSecret, "cookies"), secure: false, now });
  const sessions = createSessions({ cookies, key: deriveKey(webhookSecret, "forms"), keys: () => runs, now });

  /** Stores a run in this state, with these events and pending approvals. */
  async function startRun(
    id: string,
    {
      events = [],
      approvals = [],
      spec: changes = {},
      value = "callingModel",
      context = {},
    }: {
      events?: RunEvent[];
      approvals?: Partial<Approval>[];
      spec?: Partial<RunSpec>;
      value?: WorkerSnapshot["value"];
      context?: Partial<WorkerContext>;
    } = {},
  ): Promise<RunSpec> {
    const origin = { ...sampleSpec(id).origin, owner: "octo", repo: "sums", ...changes.origin };
    const spec = sampleSpec(id, { ...changes, origin });
    const run = initialRun(spec);
    await store.ingest({ run, events: events.map((event) => ({ runId: id, event })) });
    const { snapshot } = run;
    const inbox = await store.inbox(id);
    await store.advance({
      runId: id,
      version: 0,
      consumed: inbox.map((logged) => logged.id),
      seen: inbox.at(-1)?.id ?? 0,
      snapshot: { ...snapshot, busySince: undefined, value, context: { ...snapshot.context, ...context } },
      status: "waiting",
      effects: [],
    });
    const effect = await store.claimEffect(id, "work", now());
    await store.completeEffect({
      runId: id,
      key: effect?.key ?? "",
      approvals: approvals.map((approval, index) =>
        sampleApproval(id, `k${index}mq`, { rootId: spec.rootId, expiresAt: now() + 60_000, ...approval }),
      ),
    });
    return spec;
  }

  /** Returns the cookie and the form key of a person who signed in. */
  function signedIn(login: string): { cookie: string; form: string } {
    const session = { login, id: accountId(login), nonce: randomUUID() };
    return {
      cookie: `golem-forge-session=${cookies.seal(sessionCookie, session)}`,
      form: sessions.formKey(session),
    };
  }

  async function get(path: string, headers: Record<string, string> = {}) {
    const response = await fetch(`${url}${path}`, { headers, redirect: "manual" });
    return { status: response.status, headers: response.headers, text: await response.text() };
  }

  /** Submits a form the way the page does. */
  async function post(
    path: string,
    {
      as,
      fields = {},
      headers = {},
    }: { as?: string; fields?: Record<string, string>; headers?: Record<string, string> },
  ) {
    const { cookie, form } = as === undefined ? { cookie: "", form: "" } : signedIn(as);
    const response = await fetch(`${url}${path}`, {
      method: "POST",
      redirect: "manual",
      headers: { origin: url, cookie, accept: "application/json", ...headers },
      body: new URLSearchParams({ form, ...fields }),
    });
    const text = await response.text();
    return { status: response.status, text };
  }

  return {
    github,
    store,
    runs,
    views,
    now,
    live,
    pages,
    url,
    clock,
    outage,
    permissions,
    issue,
    errors,
    startRun,
    signedIn,
    get,
    post,
    pathOf: links.pathOf,
    /** Resolves to the events in the log of a run. */
    eventsOf: async (runId: string) => (await store.log(runId)).map(({ event }) => event),
    close: async () => {
      pages.close();
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
      if (!shared) await store.close();
    },
  };
}

export type WebWorld = Awaited<ReturnType<typeof webWorld>>;

/** Returns a function that creates worlds, which are closed after each test. */
export function webWorlds(): (options?: WebWorldOptions) => Promise<WebWorld> {
  const open: WebWorld[] = [];
  afterEach(async () => {
    await Promise.all(open.splice(0).map((made) => made.close()));
  });
  return async (options = {}) => {
    const made = await webWorld(options);
    open.push(made);
    return made;
  };
}
