import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { UserError } from "#domain/errors.ts";
import { LeaseLostError } from "#domain/work-context.ts";
import { type GitStore, type GitStoreOptions, openGitStore } from "#runtime/store/git/open-git-store.ts";
import { openRecordedDatabase } from "#runtime/store/sqlite/open-database.ts";
import { sqliteStore } from "#runtime/store/sqlite/open-sqlite-store.ts";
import type { Store } from "#runtime/store/store.ts";
import { type GitRepository, type GitServer, startGitServer } from "../../support/git-server.ts";
import { storeConformance } from "../../support/store-conformance.ts";
import { said, sampleApproval, sampleEffect, sampleRun } from "../../support/store-samples.ts";

let server: GitServer;
let repository: GitRepository;
let refs = 0;

beforeAll(async () => {
  server = await startGitServer();
  repository = await server.repository();
});
afterAll(() => server.close());

const newRef = () => `refs/golem-forge/test-${++refs}`;

function optionsOf(ref: string, options: Partial<GitStoreOptions> = {}): GitStoreOptions {
  return {
    url: repository.url,
    token: async () => "a token",
    ref,
    secret: "a secret",
    scope: "42",
    holder: "job 1",
    leaseMs: 60_000,
    maxWaitMs: 0,
    onError: (error) => {
      throw error;
    },
    ...options,
  };
}

const open = (ref: string, options: Partial<GitStoreOptions> = {}): Promise<GitStore> =>
  openGitStore(optionsOf(ref, options));

// Everything that each test stored is still there after its changes were applied to a copy of the database.
storeConformance("a store that records its changes", async () => {
  const database = openRecordedDatabase();
  const image = database.image();
  return checkedOnClose(sqliteStore(database.sql), async () =>
    sqliteStore(openRecordedDatabase({ image, changesets: [database.takeChanges()] }).sql),
  );
});

// The same with a git server takes a minute, since every test pushes and fetches several times.
if (process.env.CRASH_SWEEP === "all") {
  storeConformance("a store in a git repository", async () => {
    const ref = newRef();
    const { store } = await open(ref);
    return checkedOnClose(store, async () => (await open(ref)).store, { closeFirst: true });
  });
}

/** The store; closing it checks that the reopened one has the same contents. */
function checkedOnClose(store: Store, reopen: () => Promise<Store>, { closeFirst = false } = {}): Store {
  const close = async () => {
    const before = await contentsOf(store);
    if (before === undefined) return;
    if (closeFirst) await store.close();
    const again = await reopen();
    expect(await contentsOf(again)).toEqual(before);
    await again.close();
    await store.close();
  };
  return { ...store, close };
}

/** All contents of a store; undefined once it is closed. */
async function contentsOf(store: Store): Promise<unknown> {
  const runs = await store.latestRuns({ limit: 100 }).catch((error: Error) => {
    if (error.message === "The store is closed.") return undefined;
    throw error;
  });
  return (
    runs && {
      runs,
      ledger: await store.readLedger(0, 1_000),
      dueRuns: await store.dueRuns(Date.now()),
      nextDueAt: await store.nextDueAt(),
      more: await Promise.all(
        runs.map(async ({ id, rootId }) => ({
          log: await store.log(id),
          inbox: await store.inbox(id),
          approvals: await store.approvalsOf(rootId),
          changes: await store.changesOf(id),
        })),
      ),
    }
  );
}

describe("the ref", () => {
  test("the ref has nothing readable in it, and only the secret opens it", async () => {
    const ref = newRef();
    const first = await open(ref);
    await first.store.ingest({
      run: sampleRun("r1"),
      events: [{ runId: "r1", event: said("the password is swordfish") }],
    });
    await first.store.close();

    const [, ...names] = (await repository.git("ls-tree", "--name-only", ref)).split("\n");
    expect(names.length).toBeGreaterThan(0);
    for (const name of ["image", "changes-000000"]) {
      const blob = await repository.git("cat-file", "blob", `${ref}:${name}`);
      expect(blob).not.toMatch(/swordfish|SQLite/);
    }
    await expect(open(ref, { secret: "another" })).rejects.toThrow(/saved with another secret/);
    await expect(open(ref, { scope: "43" })).rejects.toThrow(UserError);
    const second = await open(ref);
    expect(await second.store.inbox("r1")).toMatchObject([{ event: { text: "the password is swordfish" } }]);
    await second.store.close();
  });

  test("the ref is moved once for all that was stored before a write leaves the process, and not again without need", async () => {
    const ref = newRef();
    const { store, confirmLease, publishes } = bound(await open(ref));
    expect(publishes()).toBe(1);
    await store.ingest({ run: sampleRun("r1", [sampleEffect("r1", "k1")]), events: [] });
    await store.claimEffect("r1", "work", 0);
    await store.completeEffect({ runId: "r1", key: "k1", approvals: [sampleApproval("r1", "a1")] });
    expect(publishes()).toBe(1);

    await Promise.all([confirmLease(), confirmLease()]);
    await confirmLease();

    expect(publishes()).toBe(2);
    await store.close();
    expect(publishes()).toBe(3);
  });

  test("the ref is compacted to an image when the journal is long", async () => {
    const ref = newRef();
    const { store, publish } = bound(await open(ref));
    await store.ingest({ run: sampleRun("r1"), events: [] });
    const text = Array.from({ length: 12_000 }, (_, index) => index.toString(36)).join(" ");
    for (let index = 0; index < 16; index += 1) {
      await store.ingest({ events: [{ runId: "r1", event: said(`${index} ${text}`) }] });
      await publish();
    }
    const files = (await repository.git("ls-tree", "--name-only", ref)).trim().split("\n");
    await store.close();

    expect(files.length).toBeLessThan(16);
    expect(await repository.git("rev-list", "--count", ref)).toBe("1\n");
    const again = await open(ref);
    expect(await again.store.inbox("r1")).toHaveLength(16);
    await again.store.close();
  });
});

describe("two jobs", () => {
  test("a second job waits for the lease of the first, and continues with what it stored", async () => {
    const ref = newRef();
    const first = await open(ref);
    await first.store.ingest({ deliveryId: "d1", events: [] });
    const waiting: string[] = [];
    const second = open(ref, { holder: "job 2", maxWaitMs: 60_000, onWaiting: (holder) => waiting.push(holder) });
    await expect.poll(() => waiting).toEqual(["job 1"]);

    await first.store.close();

    const { store } = await second;
    expect(await store.hasDelivery("d1")).toBe(true);
    await store.close();
  });

  test("a job that does not renew its lease loses it, and publishes nothing more", async () => {
    const ref = newRef();
    // Its heartbeat, which renews the lease, does not run while a job is suspended.
    vi.useFakeTimers({ toFake: ["setInterval"] });
    const first = bound(await open(ref, { leaseMs: 1 }).finally(() => vi.useRealTimers()));
    await first.store.ingest({ deliveryId: "published", events: [] });
    await first.publish();
    await first.store.ingest({ deliveryId: "not published", events: [] });
    const second = await open(ref, { holder: "job 2" });

    await expect(first.confirmLease()).rejects.toThrow(LeaseLostError);
    await first.lost;
    await first.store.close();

    expect(await second.store.hasDelivery("published")).toBe(true);
    expect(await second.store.hasDelivery("not published")).toBe(false);
    await second.store.close();
  });

  test("of two jobs that take a free lease at the same time, one gets it", async () => {
    const ref = newRef();
    await (await open(ref)).store.close();

    const opened = await Promise.allSettled([open(ref, { holder: "job 1" }), open(ref, { holder: "job 2" })]);

    expect(opened.map(({ status }) => status).sort()).toEqual(["fulfilled", "rejected"]);
    for (const one of opened) if (one.status === "fulfilled") await one.value.store.close();
  });

  test("a push whose response was lost counts once", async () => {
    const ref = newRef();
    const { store, publish } = bound(await open(ref));
    await store.ingest({ deliveryId: "d1", events: [] });
    let isDropped = false;
    server.options.intercept = (request, response) => {
      if (isDropped || !request.url?.endsWith("git-receive-pack")) return false;
      isDropped = true;
      response.destroy();
      return true;
    };

    await publish();

    server.options.intercept = undefined;
    expect(isDropped).toBe(true);
    await store.close();
    const again = await open(ref);
    expect(await again.store.hasDelivery("d1")).toBe(true);
    await again.store.close();
  });
});

function bound(opened: GitStore) {
  return {
    store: opened.store,
    lost: opened.lost,
    confirmLease: () => opened.confirmLease(),
    publish: () => opened.publish(),
    publishes: () => opened.publishes,
  };
}
