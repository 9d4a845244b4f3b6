import { setTimeout as wait } from "node:timers/promises";
import { ProbotOctokit } from "probot";

/** Longer pauses are not slept through: the call fails, and whoever made it tries again later. */
const maxPauseMs = 120_000;

/**
 * Octokit as Probot makes it, that waits as long as GitHub says when it is told to slow down. With `writeIntervalMs`
 * writes keep that distance from each other, instead of the one and three seconds that GitHub asks of apps.
 */
export function pacedOctokit(writeIntervalMs: number | undefined): typeof ProbotOctokit {
  const pace = writeIntervalMs === undefined ? {} : paceOf(writeIntervalMs);
  return ProbotOctokit.plugin(waitAsTold).defaults((options: { throttle?: object }) => ({
    ...options,
    // Left to the plugin, a 429 is tried again after a second, whatever GitHub said.
    retry: { doNotRetry: [400, 401, 403, 404, 410, 422, 429, 451] },
    throttle: {
      ...options.throttle,
      ...pace,
      onSecondaryRateLimit: () => false,
      onRateLimit: (seconds: number, _: unknown, __: unknown, tries: number) =>
        seconds * 1000 <= maxPauseMs && tries < 2,
    },
  })) as typeof ProbotOctokit;
}

function waitAsTold(octokit: Pick<InstanceType<typeof ProbotOctokit>, "hook" | "log">): void {
  octokit.hook.wrap("request", async (request, options) => {
    // The retry plugin counts in this object, which requests share: after any 404, each first 500 would cost 4 seconds.
    options.request = { ...options.request };
    for (let tries = 1; ; tries++) {
      try {
        return await request(options);
      } catch (error) {
        const pauseMs = retryAfterMs(error);
        if (pauseMs === undefined || pauseMs > maxPauseMs || tries > 3) throw error;
        octokit.log.warn(`GitHub asks for a pause of ${pauseMs} ms before ${options.method} ${options.url}`);
        await wait(pauseMs);
      }
    }
  });
}

interface Refusal {
  status?: number;
  message?: string;
  response?: { headers?: Record<string, string | number | undefined> };
}

/** Milliseconds; undefined where the answer was no request to slow down. */
function retryAfterMs(error: unknown): number | undefined {
  const { status, message = "", response } = error as Refusal;
  if (status !== 429 && status !== 403) return undefined;

  const seconds = Number(response?.headers?.["retry-after"]);
  if (Number.isFinite(seconds)) return seconds * 1000;
  return /\bsecondary rate\b/i.test(message) || status === 429 ? 60_000 : undefined;
}

/** What plugin-throttling takes for its two queues of writes. */
function paceOf(intervalMs: number) {
  let last: Promise<unknown> = Promise.resolve();
  const queue = {
    key: () => ({
      schedule: async (_options: unknown, job: () => Promise<unknown>) => {
        const turn = last;
        last = turn.then(() => wait(intervalMs));
        await turn;
        return job();
      },
    }),
  };
  // A comment waits in both queues; once is enough.
  const atOnce = { key: () => ({ schedule: (_options: unknown, job: () => Promise<unknown>) => job() }) };
  return { write: queue, notifications: atOnce };
}
