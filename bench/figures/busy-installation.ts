import { documentedLimits } from "../../playground/github/rate-limiter.ts";
import { startStories } from "../../test/support/forge-stories.ts";
import type { Bench, Figure } from "../figure.ts";
import { percentile } from "../measure.ts";

const runs = 50;
const slowAnswerMs = 1_500;
const silenceMs = 20_000;
const runsInSilence = 10;

/** Many concurrent runs in one installation, while GitHub enforces its rate limits, is slow, or does not answer. */
export const busyInstallationBench: Bench = {
  name: "busy-installation",
  measure: async () => [...(await manyRuns()), await slowGitHub(), await silentGitHub()],
};

const asksForApproval = () => ({ calls: [{ name: "open_pull_request", args: { title: "A fix", body: "One line." } }] });
const edits = { calls: [{ name: "write_file", args: { path: "fix.txt", content: "fixed\n" } }] };

async function startApp(options: { limits?: typeof documentedLimits } = {}) {
  const stories = await startStories({
    ...options,
    // Empty settings have their defaults, so requests are paced as in production.
    environment: { GOLEM_FORGE_WRITE_INTERVAL_MS: "", GOLEM_FORGE_STATUS_INTERVAL_MS: "2000", LOG_LEVEL: "error" },
  });
  await stories.start();
  return stories;
}

type App = Awaited<ReturnType<typeof startApp>>;

function openThread(app: App, index: number) {
  return app.open({
    title: `Broken in place ${index}.`,
    script: ({ messages }) => (messages.some(({ role }) => role === "tool") ? asksForApproval() : edits),
  });
}

/** Returns, for each thread, the milliseconds until it has a matching comment of the app. */
async function timesUntil(app: App, threads: readonly number[], pattern: RegExp, timeoutMs: number): Promise<number[]> {
  const startedAt = performance.now();
  const found = new Map<number, number>();
  const deadline = startedAt + timeoutMs;
  while (found.size < threads.length && performance.now() < deadline) {
    for (const { thread, body, author } of app.github.repository().comments.values()) {
      if (author.login === app.github.botLogin && pattern.test(body) && !found.has(thread)) {
        found.set(thread, performance.now() - startedAt);
      }
    }
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  return threads.map((thread) => found.get(thread) ?? Number.POSITIVE_INFINITY);
}

async function manyRuns(): Promise<Figure[]> {
  const app = await startApp({ limits: documentedLimits });
  try {
    const threads = Array.from({ length: runs }, (_, index) => openThread(app, index));
    for (const thread of threads) thread.comment("/run fixer");
    const numbers = threads.map(({ issue }) => issue.number);
    const [requests, shown] = await Promise.all([
      timesUntil(app, numbers, /asks for approval/, 180_000),
      timesUntil(app, numbers, /golem-forge:status|asks for approval/, 180_000),
      timesUntil(app, numbers, /golem-forge:status/, 75_000),
    ]);
    const comments = [...app.github.repository().comments.values()].filter(
      (one) => one.author.login === app.github.botLogin,
    );
    const refused = app.github.requests.filter(({ status }) => status === 403 || status === 429).length;
    const note = `${runs} runs started at the same moment in one installation, whose documented rate limits GitHub enforces; ${refused} requests were refused, and there were ${comments.length} comments after 75 seconds.`;
    return [
      figure("from /run to its approval request, 50 runs at once", requests, note),
      figure("from /run to its first comment, 50 runs at once", shown, note),
    ];
  } finally {
    await app.close();
  }
}

async function slowGitHub(): Promise<Figure> {
  const app = await startApp();
  try {
    app.github.onRequest(async () => {
      await new Promise((resolve) => setTimeout(resolve, slowAnswerMs));
      return undefined;
    });
    const threads = Array.from({ length: runs }, (_, index) => openThread(app, index));
    for (const thread of threads) thread.comment("/run fixer");
    await timesUntil(
      app,
      threads.map(({ issue }) => issue.number),
      /asks for approval/,
      120_000,
    );
    const answered = app.github.deliveries.filter(({ statusCode }) => statusCode !== undefined);
    const waits = answered.map(({ duration }) => duration * 1_000);
    const failed = answered.filter(({ statusCode = 0 }) => statusCode < 200 || statusCode >= 300).length;
    return figure(
      "a delivery is acknowledged while GitHub takes 1.5 s for each answer",
      waits,
      `${waits.length} deliveries, of which ${failed} failed.`,
    );
  } finally {
    await app.close();
  }
}

async function silentGitHub(): Promise<Figure> {
  const app = await startApp();
  try {
    let isSilent = true;
    app.github.onRequest(async () => {
      while (isSilent) await new Promise((resolve) => setTimeout(resolve, 100));
      return undefined;
    });
    const threads = Array.from({ length: runsInSilence }, (_, index) => openThread(app, index));
    for (const thread of threads) thread.comment("/run fixer");
    await new Promise((resolve) => setTimeout(resolve, silenceMs));
    isSilent = false;
    const times = await timesUntil(
      app,
      threads.map(({ issue }) => issue.number),
      /golem-forge:status/,
      120_000,
    );
    const started = times.filter(Number.isFinite).length;
    return figure(
      "from the end of an outage of 20 s to a run's status comment",
      times,
      `${started} of the ${runsInSilence} runs that were requested during the outage started.`,
    );
  } finally {
    await app.close();
  }
}

function figure(name: string, times: readonly number[], note: string): Figure {
  const sorted = [...times].sort((one, other) => one - other);
  return {
    name,
    unit: "ms",
    ours: { what: "Golem Forge", median: percentile(sorted, 0.5), p99: percentile(sorted, 0.99) },
    peers: [],
    rounds: times.length,
    note,
  };
}
