import { createHash } from "node:crypto";
import { existsSync, readdirSync, rmSync, statSync } from "node:fs";
import { homedir } from "node:os";
import { basename, join } from "node:path";
import { UserError } from "#domain/errors.ts";
import { localOrigin } from "#embed/program-host.ts";
import { DatabaseInUseError, OlderDatabaseError } from "#runtime/store/sqlite/open-database.ts";
import { openSqliteStore, openSqliteStoreReadOnly } from "#runtime/store/sqlite/open-sqlite-store.ts";
import { type RunRow, readable, type Store } from "#runtime/store/store.ts";
import { BaseRecord } from "#sandbox/checkout/base-record.ts";
import type { StepChanges } from "#sandbox/sandbox.ts";
import type { CommandContext } from "./command-context.ts";

/** A run of `golem run`, with all turns of its conversation, saved on disk. */
export interface SavedRun {
  readonly id: string;
  readonly store: Store;
  readonly record: BaseRecord;
}

const retentionMs = 90 * 24 * 60 * 60_000;
/** The key that records in a run's store that its changes were handled. */
const handledKey = "changes delivered";

/** Returns golem's folder in `XDG_STATE_HOME`, by default `~/.local/state`. */
export function stateFolder({ env }: Pick<CommandContext, "env">): string {
  return join(env.XDG_STATE_HOME || join(homedir(), ".local/state"), "golem-forge");
}

/** Returns the name of a checkout for use in file names. */
export function checkoutName(root: string): string {
  return basename(root).replaceAll(/[^\w.-]/g, "_");
}

/** The saved runs of one checkout: one database each, in a folder that only its owner can read. Most recently used first. */
export class SavedRuns {
  readonly #folder: string;

  constructor(root: string, context: Pick<CommandContext, "env">) {
    const key = createHash("sha256").update(root).digest("hex").slice(0, 12);
    this.#folder = join(stateFolder(context), `${checkoutName(root)}-${key}`);
  }

  /** Opens a new run, or one to resume. Rejects with a UserError if another process uses it or it cannot be saved. */
  async open(id: string): Promise<SavedRun> {
    const expiredBefore = Date.now() - retentionMs;
    const expired = this.ids().filter((other) => other !== id && this.#modifiedAt(`${other}.db`) < expiredBefore);
    for (const other of expired) this.delete(other);
    const store = await openSqliteStore(this.#database(id)).catch((error) => {
      if (!(error instanceof DatabaseInUseError)) throw error;
      throw new UserError(`The run ${id} is open in another terminal.`, { cause: error });
    });
    return { id, store, record: new BaseRecord(join(this.#folder, `${id}.base`)) };
  }

  /** Opens a run for reading, even while another process works on it. Upgrades one that an older release has written. */
  async read(id: string): Promise<Store> {
    const path = this.#database(id);
    try {
      return openSqliteStoreReadOnly(path);
    } catch (error) {
      if (!(error instanceof OlderDatabaseError)) throw error;
      await (await openSqliteStore(path)).close();
      return openSqliteStoreReadOnly(path);
    }
  }

  ids(): string[] {
    if (!existsSync(this.#folder)) return [];
    return readdirSync(this.#folder)
      .filter((name) => name.endsWith(".db"))
      .map((name) => ({ id: name.slice(0, -".db".length), at: this.#modifiedAt(name) }))
      .sort((a, b) => b.at - a.at)
      .map(({ id }) => id);
  }

  /** Returns the id that starts with the given text. Throws a UserError if there is no match, or more than one. */
  find(given: string): string {
    const matching = this.ids().filter((id) => id.startsWith(given));
    const [only] = matching;
    if (only !== undefined && matching.length === 1) return only;
    throw new UserError(
      only === undefined
        ? `Run ${JSON.stringify(given)} not found in this checkout. golem log lists the runs.`
        : `${given} is the beginning of several runs: ${matching.join(", ")}.`,
    );
  }

  delete(id: string): void {
    for (const suffix of [".db", ".db-wal", ".db-shm", ".db.lock", ".base"]) {
      rmSync(join(this.#folder, id + suffix), { force: true });
    }
  }

  #database(id: string): string {
    return join(this.#folder, `${id}.db`);
  }

  /** Includes the write-ahead log, since SQLite writes to it first. Reading creates an empty one. */
  #modifiedAt(name: string): number {
    const files = [name, `${name}-wal`].map((file) => statSync(join(this.#folder, file), { throwIfNoEntry: false }));
    return Math.max(...files.map((file) => (file?.size ? file.mtimeMs : 0)));
  }
}

/** Returns the turns of a run, oldest first. Each message of the person starts a turn. */
export async function turnsOf(store: Store): Promise<RunRow[]> {
  return (await store.runsOfThread(localOrigin)).map(readable).toReversed();
}

export async function changesOfTurns(store: Store, turns: readonly RunRow[]): Promise<StepChanges[]> {
  return (await Promise.all(turns.map(({ spec }) => store.changesOf(spec.id)))).flat();
}

/** Records that the person has decided about the changes, which finishes the run. */
export async function markChangesHandled(store: Store): Promise<void> {
  await store.ingest({ deliveryId: handledKey, events: [] });
}

export function areChangesHandled(store: Store): Promise<boolean> {
  return store.hasDelivery(handledKey);
}
