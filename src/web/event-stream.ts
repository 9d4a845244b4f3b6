import type { SSEStreamingApi } from "hono/streaming";
import type { RunTree, RunViewReader } from "#runtime/views/run-view-reader.ts";
import { markupOf } from "#text/html.ts";
import type { FoundRun } from "./find-run.ts";
import type { PageContext } from "./page-context.ts";
import { maxEntriesPerPage, renderEntries } from "./render-page.ts";
import { pageTitle, partsOf } from "./render-parts.ts";

export interface RunStreamOptions {
  views: RunViewReader;
  rootId: string;
  /** Called for each update; undefined ends the stream because the viewer may no longer read the run. */
  find: () => Promise<Pick<FoundRun, "tree" | "page"> | undefined>;
  /** The last event of each run that the page already shows, as `run:event,…`. Later events are sent. */
  after: string;
  /** Closes the connection of a client that does not read. */
  closeConnection: () => void;
  now: () => number;
}

const pollMs = 250;
const heartbeatMs = 15_000;
/** The time a client may take to read a message. Nothing is rendered for it meanwhile. */
const maxReadMs = 60_000;

/** Sends a run page's changes as server-sent events, whose ids let a browser continue after a reconnect. */
export async function streamRun(stream: SSEStreamingApi, options: RunStreamOptions): Promise<void> {
  const { closeConnection, now } = options;
  const updates = new PageUpdates(options);
  let sentAt = now();

  /** Resolves to false if the client did not read the message in time. */
  async function send(text: string): Promise<boolean> {
    let done = false;
    const written = stream.write(text).then(() => {
      done = true;
    });
    sentAt = now();
    while (!done && !stream.aborted) {
      if (now() - sentAt > maxReadMs) return false;
      await Promise.race([written, stream.sleep(pollMs)]);
    }
    sentAt = now();
    return true;
  }

  let read = await send("retry: 1000\n\n");
  while (read && !stream.aborted) {
    const update = await updates.next();
    if (update === undefined || stream.aborted) return;
    if (update !== "none") read = await send(`data: ${JSON.stringify(update)}\nid: ${updates.cursor}\n\n`);
    else if (now() - sentAt > heartbeatMs) read = await send(": heartbeat\n\n");
    await stream.sleep(pollMs);
  }
  if (!read) closeConnection();
}

interface PageUpdate {
  title: string;
  parts: { id: string; version: string; into: string | undefined; html: string }[];
  /** The ids of elements to remove. */
  gone: string[];
  /** New transcript entries by run. */
  entries: { run: string; html: string }[];
}

/** Compares a run with the state a page shows. */
class PageUpdates {
  readonly #options: RunStreamOptions;
  readonly #shown: Map<string, number>;
  readonly #versions = new Map<string, string>();

  constructor(options: RunStreamOptions) {
    this.#options = options;
    this.#shown = parseCursor(options.after);
  }

  get cursor(): string {
    return [...this.#shown].map(([run, id]) => `${run}:${id}`).join(",");
  }

  /** Resolves to undefined once the viewer may no longer read the run. */
  async next(): Promise<PageUpdate | "none" | undefined> {
    const found = await this.#options.find();
    if (!found) return undefined;
    const { tree, page } = found;
    const update = {
      title: pageTitle(tree),
      ...this.#partsOf(tree, page),
      entries: await this.#entriesOf(tree, page),
    };
    return update.parts.length + update.gone.length + update.entries.length > 0 ? update : "none";
  }

  #partsOf(tree: RunTree, context: PageContext): Pick<PageUpdate, "parts" | "gone"> {
    const all = partsOf(tree, context);
    const parts = all
      .filter(({ id, version }) => this.#versions.get(id) !== version)
      .map(({ id, version, into, markup }) => ({ id, version, into, html: markup() }));
    for (const { id, version } of parts) this.#versions.set(id, version);
    const gone = [...this.#versions.keys()].filter((id) => !all.some((part) => part.id === id));
    for (const id of gone) this.#versions.delete(id);
    return { parts, gone };
  }

  async #entriesOf(tree: RunTree, context: PageContext): Promise<PageUpdate["entries"]> {
    const { views, rootId } = this.#options;
    const entries: PageUpdate["entries"] = [];
    for (const run of tree.runs) {
      const { id } = run.spec;
      const last = this.#shown.get(id);
      if (last !== undefined && last >= run.newest) continue;
      const page = await views.readEvents(rootId, id, { after: last, limit: maxEntriesPerPage });
      // The page already links to the entries before those it shows.
      const added = last === undefined ? page : { ...page, earlier: 0 };
      entries.push({ run: id, html: markupOf(renderEntries(tree, run, added, context)) });
      this.#shown.set(id, page.events.at(-1)?.id ?? run.newest);
    }
    return entries;
  }
}

const cursorPattern = /^([a-z0-9-]{1,40}):(\d{1,15})$/;
const maxRuns = 1_000;

/** Parses a cursor. Ignores invalid parts. */
function parseCursor(text: string): Map<string, number> {
  const pairs = text
    .slice(0, 60 * maxRuns)
    .split(",")
    .slice(0, maxRuns);
  return new Map(
    pairs.flatMap((pair): [string, number][] => {
      const [, run = "", id] = cursorPattern.exec(pair) ?? [];
      return id === undefined ? [] : [[run, Number(id)]];
    }),
  );
}
