import { z } from "zod";
import { OutageError, UserError } from "#domain/errors.ts";
import { isOpenQuestion, type RunSpec } from "#domain/run.ts";
import { UnreadableDataError } from "#domain/stored-data.ts";
import { questionAskedId, questionName, questionOf } from "#runtime/read-log.ts";
import type { RunRow, Store } from "#runtime/store/store.ts";

const Asked = z.object({ question: z.string() });

interface OpenQuestion {
  runId: string;
  callId: string;
  step: number;
  /** The name of its post. */
  name: string;
  /** The id of the event that presented it to people. */
  askedId: number;
  /** The words of its text. */
  words: string;
}

/**
 * Returns the unanswered question of these trees that the answer quotes, or the oldest, or the one with this name. With a
 * comment, only questions posted before it count.
 */
export async function findQuestion(
  store: Store,
  roots: readonly RunRow[],
  { commentId, name, answer = "" }: { commentId: number | undefined; name: string | undefined; answer?: string },
): Promise<OpenQuestion | undefined> {
  const runs = (await Promise.all(roots.map((root) => readableTree(store, root)))).flat();
  const questions = (await Promise.all(runs.map((run) => questionsOf(store, run)))).flat();
  const wanted = name === undefined ? questions : questions.filter((question) => question.name === name);
  const oldestFirst = wanted.sort((a, b) => a.askedId - b.askedId);
  const quote = wordsOf(quoteIn(answer));
  const quoted = oldestFirst.filter(({ words }) => words !== "" && ` ${quote} `.includes(` ${words} `));
  // A question may contain the words of another one.
  quoted.sort((a, b) => b.words.length - a.words.length);
  for (const question of [...quoted, ...oldestFirst]) {
    if (commentId === undefined) return question;
    const post = await store.findPost(question.name);
    if (!post) throw new OutageError("A question of this thread is still being posted.");
    // Its author had not seen a question that was posted later.
    if (post.commentId < commentId) return question;
  }
  return undefined;
}

/** Returns the quotation with which a comment begins, as GitHub's "Quote reply" writes it. */
function quoteIn(text: string): string {
  return /^(?:>[^\n]*(?:\n|$))+/.exec(text.trimStart())?.[0] ?? "";
}

/** Leaves out marks, which a quotation of a rendered text has in other places. */
function wordsOf(text: string): string {
  return text
    .toLowerCase()
    .replace(/[^\p{L}\p{N}]+/gu, " ")
    .trim();
}

/** True if another question of the run's thread was open before this call asked. */
export async function hasEarlierQuestion(store: Store, { id, origin }: RunSpec, callId: string): Promise<boolean> {
  const roots = (await store.runsOfThread(origin)).filter((run) => !run.unreadable);
  const runs = (await Promise.all(roots.map((root) => readableTree(store, root)))).flat();
  return runs.some((run) => {
    const [oldest] = run.status === "done" ? [] : callsAwaitingAnswer(run);
    return oldest !== undefined && (run.id !== id || oldest !== callId);
  });
}

async function questionsOf(store: Store, run: RunRow): Promise<OpenQuestion[]> {
  const calls = callsAwaitingAnswer(run);
  if (calls.length === 0) return [];
  const { id } = run;
  const log = await store.log(id).catch((error: unknown) => {
    throw error instanceof UnreadableDataError ? new UserError(error.message, { cause: error }) : error;
  });
  return calls.flatMap((callId) => {
    const { call, step, answer } = questionOf(log, callId);
    const askedId = questionAskedId(log, callId);
    // The run may not have read its answer, or that it was paused, yet.
    const isPaused = log.some(({ id, event: { type } }) => id > askedId && type === "run.stop");
    if (answer || isPaused) return [];
    const words = wordsOf(Asked.safeParse(call.args).data?.question ?? "");
    return [{ runId: id, callId, step, name: questionName(id, step, callId), askedId, words }];
  });
}

export function callsAwaitingAnswer({ snapshot }: RunRow): string[] {
  return snapshot.context.openCalls.filter(isOpenQuestion).map(({ callId }) => callId);
}

/** Returns a run and those below it that can be read. */
export async function readableTree(store: Store, run: RunRow): Promise<RunRow[]> {
  const children = (await store.childrenOf(run.id)).filter((child) => !child.unreadable);
  return [run, ...(await Promise.all(children.map((child) => readableTree(store, child)))).flat()];
}
