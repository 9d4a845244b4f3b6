import type { ServerResponse } from "node:http";
import type { RunTree, RunViewReader } from "#runtime/views/run-view-reader.ts";
import { markupOf } from "./html.ts";
import { entriesAtOnce, renderEntries } from "./render-page.ts";
import { type PageContext, partsOf, titleOf } from "./render-parts.ts";

export interface EventStreamOptions {
  books: RunViewReader;
  rootId: string;
  /** Asked again and again: undefined ends the stream, since who watches may not any more. */
  context: () => Promise<PageContext | undefined>;
  /** How far the page has shown each transcript, `run:event,…`; what stands behind it is sent. */
  after: string;
  now: () => number;
}

const everyMs = 250;
const heartbeatMs = 15_000;
const askAgainMs = 60_000;
/** How long a reader may take for what it was sent. Until then nothing more is made for it; then it is hung up on. */
const longestReadMs = 60_000;

/**
 * Sends what changes on a page for as long as somebody watches it, as server-sent events. Each carries how far it brings
 * the page, so that one that comes back goes on from there. Returns what ends it.
 */
export function streamRun(
  response: ServerResponse,
  { books, rootId, context, after, now }: EventStreamOptions,
): () => void {
  const shown = readCursor(after);
  const versions = new Map<string, string>();
  let [heardAt, askedAt] = [now(), Number.NEGATIVE_INFINITY];
  let current: PageContext | undefined;
  let timer: NodeJS.Timeout | undefined;
  let ended = false;

  function end(): void {
    ended = true;
    clearTimeout(timer);
    response.end();
  }

  async function look(): Promise<void> {
    const time = now();
    if (response.writableNeedDrain) {
      if (time - heardAt > longestReadMs) response.destroy();
      return;
    }
    if (time - askedAt > askAgainMs) {
      current = await context();
      askedAt = time;
    }
    const tree = current && (await books.readTree(rootId));
    if (!current || !tree) return end();
    const change = await changeOf(tree, { ...current, now: time });
    if (ended) return;
    if (change) response.write(`id: ${cursorText(shown)}\ndata: ${JSON.stringify(change)}\n\n`);
    else if (time - heardAt > heartbeatMs) response.write(": still here\n\n");
    else return;
    heardAt = time;
  }

  async function changeOf(tree: RunTree, page: PageContext) {
    const all = partsOf(tree, page);
    const parts = all
      .filter(({ id, version }) => versions.get(id) !== version)
      .map(({ id, version, into, markup }) => ({ id, version, into, html: markup() }));
    for (const { id, version } of parts) versions.set(id, version);
    const gone = [...versions.keys()].filter((id) => !all.some((part) => part.id === id));
    for (const id of gone) versions.delete(id);

    const entries: { run: string; html: string }[] = [];
    for (const lane of tree.runs) {
      const { id } = lane.spec;
      const last = shown.get(id);
      if (last !== undefined && last >= lane.newest) continue;
      const news = await books.readEvents(rootId, id, { after: last, limit: entriesAtOnce });
      // What stands before them is on the page already.
      const known = last === undefined ? news : { ...news, earlier: 0 };
      entries.push({ run: id, html: markupOf(renderEntries(tree, lane, known, page)) });
      shown.set(id, news.events.at(-1)?.id ?? lane.newest);
    }
    if (parts.length === 0 && gone.length === 0 && entries.length === 0) return undefined;
    return { title: titleOf(tree), parts, gone, entries };
  }

  function again(): void {
    if (ended) return;
    timer = setTimeout(() => void look().then(again, end), everyMs);
  }

  response.on("close", () => {
    ended = true;
    clearTimeout(timer);
  });
  response.write("retry: 1000\n\n");
  void look().then(again, end);
  return end;
}

const cursorPattern = /^([a-z0-9-]{1,40}):(\d{1,15})$/;
const mostRuns = 1_000;

/** Whatever does not look like one says nothing. */
function readCursor(text: string): Map<string, number> {
  const pairs = text
    .slice(0, 60 * mostRuns)
    .split(",")
    .slice(0, mostRuns);
  return new Map(
    pairs.flatMap((pair): [string, number][] => {
      const [, run = "", id] = cursorPattern.exec(pair) ?? [];
      return id === undefined ? [] : [[run, Number(id)]];
    }),
  );
}

function cursorText(shown: ReadonlyMap<string, number>): string {
  return [...shown].map(([run, id]) => `${run}:${id}`).join(",");
}
