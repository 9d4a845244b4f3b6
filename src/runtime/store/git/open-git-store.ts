import { randomBytes } from "node:crypto";
import { setTimeout as pause } from "node:timers/promises";
import { z } from "zod";
import { SerialQueue } from "#domain/async-work.ts";
import { UserError } from "#domain/errors.ts";
import { LeaseLostError, startStopwatch } from "#domain/work-context.ts";
import type { Dispatch, DispatchTarget } from "#runtime/scheduler/dispatch.ts";
import { openRecordedDatabase, type RecordedDatabase } from "#runtime/store/sqlite/open-database.ts";
import { sqliteStore } from "#runtime/store/sqlite/open-sqlite-store.ts";
import type { Store } from "#runtime/store/store.ts";
import { type RefState, Seal, StateRef, type StateRefOptions } from "./state-ref.ts";

export interface GitStoreOptions extends StateRefOptions {
  /** The secret from which the encryption key is derived. */
  secret: string;
  /** Identifies the owner of the contents, such as the id of the repository. */
  scope: string;
  /** The name of this process for people, such as the address of its log. */
  holder: string;
  /** Another process may take over if the lease was not renewed for this long. */
  leaseMs: number;
  /** The maximum time to wait for the lease of another process. */
  maxWaitMs: number;
  onError: (error: unknown) => void;
  /** Called once while another process has the lease. */
  onWaiting?: (holder: string) => void;
}

/** The message of a commit of the ref: everything that must be read without the secret. */
const Header = z.object({
  version: z.literal(1),
  /** The random salt of the key. It changes with each image. */
  salt: z.string(),
  /** The number of journal files. */
  changes: z.number(),
  /** The process that may change the state; undefined when none does. */
  holder: z.string().optional(),
  /** Milliseconds since 1970. */
  leasedUntil: z.number(),
  /** Notes of the owner of the store, such as how far it has read. */
  notes: z.record(z.string(), z.string()),
});
type Header = z.infer<typeof Header>;

const title = "Runs of Golem Forge. Written by its GitHub Action: do not edit.";
const imageName = "image";
const journalName = (index: number) => `changes-${String(index).padStart(6, "0")}`;

/** A new image replaces the journal when it has this many files, or is larger than the image. */
const maxJournalFiles = 200;
const minJournalBytes = 512 * 1024;
/** Changes that no operation waits for are published after this delay. */
const publishDelayMs = 3_000;
const heartbeatMs = 1_000;
const pollMs = 2_000;

/**
 * Opens the store in a ref of a git repository, for processes without a disk of their own. The state is a SQLite database
 * in memory; the ref has an encrypted image of it and a journal of later changes. Only the process with the lease changes
 * it, and every update of the ref is a compare-and-swap. Waits until the lease of another process expires.
 *
 * A commit in memory is cheap and a push is expensive, so changes are published in groups: before anything leaves the
 * process (`confirmLease`), and otherwise after a few seconds. Changes that a dying process had not published had no
 * effect outside, and are repeated.
 */
export async function openGitStore(options: GitStoreOptions): Promise<GitStore> {
  const ref = new StateRef(options);
  const waited = startStopwatch();
  let header: Header | undefined;
  let saved: RefState | undefined;
  let hasReported = false;
  for (;;) {
    const state = await ref.read();
    if (state !== "unchanged") {
      saved = state;
      header = state && readHeader(state.message);
    }
    const leaseMs = header?.holder === undefined ? 0 : header.leasedUntil - Date.now();
    if (leaseMs <= 0) {
      const store = new GitStore({ options, ref, ...load(options, saved, header) });
      try {
        await store.publish();
        store.start();
        return store;
      } catch (error) {
        if (!(error instanceof LeaseLostError)) throw error;
        // Another process was faster.
      }
    }
    if (waited() > options.maxWaitMs) {
      throw new UserError(`${options.ref} is in use by ${header?.holder}. Try again when that has ended.`);
    }
    if (!hasReported && header?.holder !== undefined) options.onWaiting?.(header.holder);
    hasReported = true;
    await pause(Math.min(pollMs, Math.max(100, leaseMs)));
  }
}

function readHeader(message: string): Header {
  const json = message.slice(message.indexOf("\n\n") + 2);
  const parsed = Header.safeParse(JSON.parse(json));
  if (parsed.success) return parsed.data;
  throw new UserError("The saved runs were written by a newer version of Golem Forge. Use that version again.");
}

type Loaded = { database: RecordedDatabase; header: Header; journalBytes: number; imageBytes: number };

function load({ secret, scope }: GitStoreOptions, saved: RefState | undefined, header: Header | undefined): Loaded {
  if (!saved || !header) {
    const empty: Header = { version: 1, salt: "", changes: 0, leasedUntil: 0, notes: {} };
    return { database: openRecordedDatabase(), header: empty, journalBytes: 0, imageBytes: 0 };
  }
  const seal = new Seal({ secret, salt: header.salt, scope });
  const contentOf = (name: string) => {
    const file = saved.files.get(name);
    if (!file) throw new Error(`The saved runs are incomplete: ${name} is missing.`);
    return seal.open(name, file);
  };
  const image = contentOf(imageName);
  const changesets = Array.from({ length: header.changes }, (_, index) => contentOf(journalName(index)));
  const journalBytes = changesets.reduce((sum, { length }) => sum + length, 0);
  return { database: openRecordedDatabase({ image, changesets }), header, journalBytes, imageBytes: image.length };
}

export class GitStore {
  readonly store: Store;
  readonly dispatch: Dispatch;
  /** Resolves when another process has taken over. */
  readonly lost: Promise<void>;
  /** Notes that are saved with the state. */
  readonly notes: Map<string, string>;
  readonly #options: GitStoreOptions;
  readonly #ref: StateRef;
  readonly #database: RecordedDatabase;
  readonly #commits: Store;
  readonly #publishing = new SerialQueue();
  readonly #losing = Promise.withResolvers<void>();
  /** The runs that this process has performed, even if they wait now. */
  readonly #performed = new Set<string>();
  #queued: Promise<void> | undefined;
  #header: Header;
  #seal: Seal | undefined;
  #imageBytes: number;
  #journalBytes: number;
  #needsImage: boolean;
  #sinceRenewed = startStopwatch();
  #changedAt: number | undefined;
  /** True if the database has changes that are not in the ref yet. */
  #isUnpublished = false;
  #isLost = false;
  #isClosing = false;
  #publishes = 0;
  #timer: NodeJS.Timeout | undefined;
  #target: DispatchTarget | undefined;

  constructor({
    options,
    ref,
    database,
    header,
    journalBytes,
    imageBytes,
  }: { options: GitStoreOptions; ref: StateRef } & Loaded) {
    const { secret, scope } = options;
    this.#options = options;
    this.#ref = ref;
    this.#database = database;
    this.#header = header;
    this.#imageBytes = imageBytes;
    this.#journalBytes = journalBytes;
    this.#needsImage = header.salt === "" || database.isMigrated;
    this.#seal = header.salt === "" ? undefined : new Seal({ secret, salt: header.salt, scope });
    this.notes = new Map(Object.entries(header.notes));
    this.lost = this.#losing.promise;
    this.#commits = sqliteStore(database.sql);
    // A job ends before it would accept that its clock is ahead of the newest stored time, so it relies on that of its machine.
    this.store = { ...this.#commits, latestTime: async () => undefined, close: () => this.close() };
    this.dispatch = {
      attach: async (target) => {
        this.#target = target;
      },
      wake: (runId) => this.#wake(runId),
      confirmLease: () => this.confirmLease(),
      detach: (finish) => finish(),
    };
  }

  /** The runs that this process has performed, if another one has taken over. What it sent last may have arrived late. */
  get lostRuns(): ReadonlySet<string> {
    return this.#isLost ? this.#performed : new Set();
  }

  /** True if another process has taken over, as far as this one knows. */
  get isLost(): boolean {
    return this.#isLost;
  }

  /** The number of pushes so far. */
  get publishes(): number {
    return this.#publishes;
  }

  start(): void {
    this.#timer = setInterval(() => this.#onHeartbeat(), heartbeatMs).unref();
  }

  /** Resolves when everything stored so far is published. Rejects with a LeaseLostError after a takeover. */
  async confirmLease(): Promise<void> {
    if (this.#isLost) throw new LeaseLostError();
    const isRecent = this.#sinceRenewed() < this.#options.leaseMs / 2;
    if (isRecent && !this.#isUnpublished && !this.#database.hasChanges()) return;
    await this.publish();
  }

  /** Publishes stored changes and renews the lease. */
  publish(): Promise<void> {
    this.#queued ??= this.#publishing.run(() => {
      this.#queued = undefined;
      return this.#publishOnce();
    });
    return this.#queued;
  }

  /** Publishes stored changes and releases the lease. */
  async close(): Promise<void> {
    if (this.#isClosing) return;
    this.#isClosing = true;
    clearInterval(this.#timer);
    try {
      if (!this.#isLost) await this.publish();
    } finally {
      await this.#commits.close();
    }
  }

  async #publishOnce(): Promise<void> {
    if (this.#isLost) throw new LeaseLostError();
    // A changeset contains whole transactions.
    while (this.#database.sql.inTransaction()) await this.#commits.ping();
    this.#changedAt = undefined;
    this.#isUnpublished = true;
    this.#addChanges();
    const now = Date.now();
    const { holder, leaseMs } = this.#options;
    const lease = this.#isClosing ? { holder: undefined, leasedUntil: 0 } : { holder, leasedUntil: now + leaseMs };
    const header: Header = { ...this.#header, ...lease, notes: Object.fromEntries(this.notes) };
    const renewed = startStopwatch();
    try {
      await this.#ref.commit(`${title}\n\n${JSON.stringify(header)}\n`, new Date(now));
    } catch (error) {
      if (error instanceof LeaseLostError) this.#onLost();
      throw error;
    }
    this.#isUnpublished = false;
    this.#publishes += 1;
    this.#sinceRenewed = renewed;
  }

  /** Adds the changes since the last commit to the journal, or replaces the journal with an image. */
  #addChanges(): void {
    const { secret, scope } = this.#options;
    const changes = this.#database.takeChanges();
    const isLong =
      this.#header.changes >= maxJournalFiles ||
      this.#journalBytes + changes.length > Math.max(minJournalBytes, this.#imageBytes);
    if (!this.#seal || this.#needsImage || isLong) {
      const salt = randomBytes(16).toString("hex");
      const image = this.#database.image();
      this.#seal = new Seal({ secret, salt, scope });
      this.#ref.clear();
      this.#ref.add(imageName, this.#seal.close(imageName, image));
      this.#header = { ...this.#header, salt, changes: 0 };
      this.#imageBytes = image.length;
      this.#journalBytes = 0;
      this.#needsImage = false;
    } else if (changes.length > 0) {
      const name = journalName(this.#header.changes);
      this.#ref.add(name, this.#seal.close(name, changes));
      this.#header = { ...this.#header, changes: this.#header.changes + 1 };
      this.#journalBytes += changes.length;
    }
  }

  #onHeartbeat(): void {
    if (this.#isLost || this.#isClosing) return;
    if (this.#database.hasChanges()) this.#changedAt ??= Date.now();
    const isDue = this.#changedAt !== undefined && Date.now() - this.#changedAt >= publishDelayMs;
    if (!isDue && this.#sinceRenewed() < this.#options.leaseMs / 3) return;
    this.publish().catch((error) => {
      if (!(error instanceof LeaseLostError)) this.#options.onError(error);
    });
  }

  #onLost(): void {
    this.#isLost = true;
    for (const runId of this.#performed) this.#target?.revokeLease(runId);
    this.#losing.resolve();
  }

  #wake(runId: string): void {
    if (this.#isLost) return;
    this.#performed.add(runId);
    void this.#target?.process(runId, true);
  }
}
