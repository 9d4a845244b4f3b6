import type { Approval } from "#domain/approval.ts";
import type { LoggedEvent } from "#domain/events.ts";
import type { Task } from "#domain/result.ts";
import type { OpenCall, RunOutcome, RunSpec, RunState, TokenUsage } from "#domain/run.ts";
import { type Snapshot, stateName } from "#runtime/apply-events.ts";
import type { LiveOutput } from "#runtime/live-output.ts";
import type { RunRow, Store } from "#runtime/store/store.ts";
import { redactDeep } from "#text/redact.ts";
import { activityOf, emptySummary, outcomeOf, type RunSummary, summarize } from "./run-summary.ts";

/** A call as one line can tell of it, for results that stand far below it. */
export interface CallLine {
  tool: string;
  args: string;
}

/** One run of a tree, as somebody who watches it sees it. */
export interface RunNode {
  spec: RunSpec;
  /** The machine's state, such as `callingModel`. */
  state: RunState;
  activity: string;
  steps: number;
  /** In and out, its children's included: what counts against its limit. */
  tokens: number;
  /** US dollars, of the calls whose price is known. */
  cost: number;
  /** Milliseconds it worked until it was last written down. */
  workedMs: number;
  /** Since when it is at work; undefined while it waits. */
  busySince: number | undefined;
  usage: TokenUsage;
  tasks: Task[];
  openCalls: OpenCall[];
  outcome: RunOutcome | undefined;
  /** By id. */
  calls: ReadonlyMap<string, CallLine>;
  /** The id of its newest event; 0 when there is none. */
  newest: number;
  /** What is being printed or said at this moment, when it happens in this process. */
  live: { text: string; version: number } | undefined;
}

/** A root run with its children, each after its parent. */
export interface RunTree {
  runs: RunNode[];
  /** Oldest first. */
  approvals: Approval[];
}

export interface EventsPage {
  /** Oldest first. */
  events: LoggedEvent[];
  /** How many there are before these. */
  earlier: number;
}

/**
 * Reads trees of runs for those who watch them: however many ask, the store is asked a few times in a second for what is
 * new, and never again for what was read. What is read is the store's, whichever replica drives the run.
 */
export interface RunViewReader {
  /** Undefined when there is no root run of this id. */
  readTree(rootId: string): Promise<RunTree | undefined>;
  /** Something was written to the tree a moment ago: who reads next sees it. */
  invalidate(rootId: string): void;
  /** The last so many events of a run of the tree before the given one, or all after the given one, so many at most. */
  readEvents(
    rootId: string,
    runId: string,
    page: { before?: number | undefined; after?: number | undefined; limit: number },
  ): Promise<EventsPage>;
}

/** How long what was read may be shown again, in milliseconds. */
const freshMs = 250;
/** Books nobody opened for this long are put away, in milliseconds. */
const idleMs = 60_000;
const mostBooks = 200;
const readAtOnce = 500;
const longestArguments = 400;
/** Of what is printed or said at the moment, in characters and lines. */
const shownMoment = 4_000;
const shownLines = 20;

interface Chapter {
  row: RunRow;
  ids: number[];
  calls: Map<string, CallLine>;
  summary: RunSummary;
}

interface Book {
  chapters: Map<string, Chapter>;
  approvals: Approval[];
  readAt: number;
  /** Something was written since it was last read. */
  stale: boolean;
  usedAt: number;
  reading: Promise<boolean>;
}

export interface RunViewReaderOptions {
  store: Pick<Store, "findRun" | "log" | "childrenOf" | "approvalsOf">;
  live: Pick<LiveOutput, "read">;
  /** Everything that is read passes it before it is cut. */
  redact: (text: string) => string;
  now: () => number;
}

export function createRunViewReader({ store, live, redact, now }: RunViewReaderOptions): RunViewReader {
  const books = new Map<string, Book>();

  async function read(rootId: string): Promise<RunTree | undefined> {
    const book = openBook(rootId);
    // One reading after the other, and those who come meanwhile share the next.
    book.reading = book.reading.catch(() => true).then(() => bringUpToDate(book, rootId));
    if (!(await book.reading)) {
      books.delete(rootId);
      return undefined;
    }
    return { runs: inOrder([...book.chapters.values()]).map(laneOf), approvals: book.approvals };
  }

  function openBook(rootId: string): Book {
    const time = now();
    for (const [id, { usedAt }] of books) if (time - usedAt > idleMs || books.size > mostBooks) books.delete(id);
    const book = books.get(rootId) ?? {
      chapters: new Map(),
      approvals: [],
      readAt: Number.NEGATIVE_INFINITY,
      stale: false,
      usedAt: time,
      reading: Promise.resolve(true),
    };
    book.usedAt = time;
    // The one used last stands last, so that the first is the one to put away.
    books.delete(rootId);
    books.set(rootId, book);
    return book;
  }

  async function bringUpToDate(book: Book, rootId: string): Promise<boolean> {
    if (!book.stale && now() - book.readAt < freshMs) return true;
    book.stale = false;
    const root = await store.findRun(rootId);
    if (!root || root.spec.parentId) return false;

    if (await readOn(book, root)) book.approvals = redactDeep(await store.approvalsOf(rootId), redact);
    book.readAt = now();
    return true;
  }

  /** True when there was something new in this run or below. */
  async function readOn(book: Book, row: RunRow): Promise<boolean> {
    const { id } = row.spec;
    const known = book.chapters.get(id);
    // A run that is over hears nothing without its version growing.
    if (known?.row.status === "done" && known.row.version === row.version) return false;
    const chapter = known ?? { row, ids: [], calls: new Map(), summary: emptySummary };
    book.chapters.set(id, chapter);
    const before = chapter.ids.length;
    for (;;) {
      const news = await store.log(id, chapter.ids.at(-1), readAtOnce);
      for (const logged of news) note(chapter, logged, redact);
      if (news.length < readAtOnce) break;
    }
    const isNews = !known || known.row.version !== row.version || chapter.ids.length > before;
    chapter.row = row;

    const children = await store.childrenOf(id);
    const below = [];
    for (const child of children) below.push(await readOn(book, child));
    return isNews || below.some(Boolean);
  }

  async function events(
    rootId: string,
    runId: string,
    { before, after, limit }: Parameters<RunViewReader["readEvents"]>[2],
  ): Promise<EventsPage> {
    const ids = books.get(rootId)?.chapters.get(runId)?.ids ?? [];
    if (after !== undefined) {
      const from = placeOf(ids, after + 1);
      return { events: redactDeep(await store.log(runId, after, limit), redact), earlier: from };
    }
    const end = before === undefined ? ids.length : placeOf(ids, before);
    const start = Math.max(0, end - limit);
    if (end === start) return { events: [], earlier: 0 };
    const events = await store.log(runId, ids[start - 1] ?? 0, end - start);
    return { events: redactDeep(events, redact), earlier: start };
  }

  function laneOf({ row, ids, calls, summary }: Chapter): RunNode {
    const { spec } = row;
    const snapshot = row.snapshot as Snapshot;
    const { steps, tokens, cost, openCalls: open } = snapshot.context;
    const state = stateName(snapshot);
    return {
      spec,
      state,
      activity: redact(activityOf(state, snapshot, summary)),
      steps,
      tokens,
      cost,
      workedMs: snapshot.workedMs,
      busySince: snapshot.busySince,
      usage: summary.usage,
      tasks: redactDeep(summary.tasks, redact),
      openCalls: open,
      outcome: redactDeep(outcomeOf(snapshot, summary), redact),
      calls,
      newest: ids.at(-1) ?? 0,
      live: liveOf(spec.id, state, open),
    };
  }

  /** What was said before the run moved on is in the log by now. */
  function liveOf(runId: string, state: RunState, open: readonly OpenCall[]): RunNode["live"] {
    const moment = live.read(runId);
    if (!moment) return undefined;
    const isOn = moment.source.startsWith("model/")
      ? state === "callingModel"
      : open.some(({ callId, status }) => callId === moment.source && status === "running");
    return isOn ? { text: lastLines(redact(moment.text)), version: moment.version } : undefined;
  }

  function renew(rootId: string): void {
    const book = books.get(rootId);
    if (book) book.stale = true;
  }

  return { readTree: read, invalidate: renew, readEvents: events };
}

/** Whole words of the end: what is still being written may be the first half of a secret, and what was cut off the second. */
function lastLines(text: string): string {
  const whole = text.slice(0, Math.max(text.lastIndexOf("\n"), text.lastIndexOf(" ")) + 1);
  const tail = whole.slice(-shownMoment).split("\n").slice(-shownLines);
  return (whole.length > shownMoment ? tail.slice(1) : tail).join("\n");
}

function note(chapter: Chapter, logged: LoggedEvent, redact: (text: string) => string): void {
  const { id, event } = logged;
  chapter.ids.push(id);
  chapter.summary = summarize(chapter.summary, logged);
  if (event.type === "model.answered") {
    for (const { callId, tool, args } of event.calls)
      chapter.calls.set(callId, { tool: redact(tool), args: lineOf(redactDeep(args, redact)) });
  }
}

/** A call's arguments on a line: what is text speaks for itself, the rest has its name. */
function lineOf(args: unknown): string {
  const values = args !== null && typeof args === "object" ? Object.entries(args) : [["", args]];
  const words = values.map(([name, value]) =>
    typeof value === "string" ? value : `${name} ${(JSON.stringify(value) ?? "").slice(0, 2_000)}`.trim(),
  );
  return words.join(" · ").replaceAll(/\s+/g, " ").slice(0, longestArguments);
}

/** Where the first id that is not below this one stands. */
function placeOf(ids: readonly number[], id: number): number {
  let [low, high] = [0, ids.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((ids[middle] ?? 0) < id) low = middle + 1;
    else high = middle;
  }
  return low;
}

function inOrder(chapters: readonly Chapter[]): Chapter[] {
  const below = (parentId: string | undefined): Chapter[] =>
    chapters
      .filter(({ row }) => row.spec.parentId === parentId)
      .flatMap((chapter) => [chapter, ...below(chapter.row.spec.id)]);
  return below(undefined);
}
