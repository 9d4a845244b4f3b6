import { once } from "node:events";
import http, { type ClientRequest, type IncomingMessage } from "node:http";
import https from "node:https";
import { ModelFailureError } from "./models.ts";

/** The time that a provider may stay silent, in milliseconds. */
export interface CallTimeouts {
  /** Until the answer begins. A local model may read a long prompt for minutes. */
  firstMs: number;
  /** Between two parts of the answer. */
  idleMs: number;
  /** For the whole call. */
  totalMs: number;
}

export type CallWatch = ReturnType<typeof watchCall>;

/** Watches one model call, and aborts it with the caller's signal or when the provider takes too long. */
export function watchCall(caller: AbortSignal, { firstMs, idleMs, totalMs }: CallTimeouts, provider: string) {
  const controller = new AbortController();
  const timeOut = (message: string) => controller.abort(new ModelFailureError(message, { retryable: true }));
  const onAbort = () => controller.abort(caller.reason);
  caller.addEventListener("abort", onAbort, { once: true });

  const total = setTimeout(
    () => timeOut(`${provider} had not finished its answer after ${formatDuration(totalMs)}.`),
    totalMs,
  );
  let idle = setTimeout(
    () => timeOut(`${provider} did not begin to answer within ${formatDuration(firstMs)}.`),
    firstMs,
  );
  let hasBegun = false;
  let isStopped = false;
  return {
    /** Aborted with the caller's reason, or with a ModelFailureError after a timeout. */
    // The inferred type cannot be named in the package's declaration files.
    signal: controller.signal as AbortSignal,
    /** Reports that a part of the answer has arrived. */
    recordActivity(): void {
      if (isStopped) return;
      if (hasBegun) {
        idle.refresh();
        return;
      }
      hasBegun = true;
      clearTimeout(idle);
      idle = setTimeout(
        () => timeOut(`${provider} stopped in the middle of its answer for ${formatDuration(idleMs)}.`),
        idleMs,
      );
    },
    /** Ends the watch. The signal is no longer aborted. */
    stop(): void {
      isStopped = true;
      clearTimeout(idle);
      clearTimeout(total);
      caller.removeEventListener("abort", onAbort);
    },
  };
}

function formatDuration(milliseconds: number): string {
  if (milliseconds < 60_000) return `${milliseconds / 1_000} seconds`;
  const minutes = Math.round(milliseconds / 60_000);
  return minutes === 1 ? "a minute" : `${minutes} minutes`;
}

interface GuardedFetchOptions {
  /** The provider's name. */
  provider: string;
  /** The variable that holds the provider's URL; undefined for a fixed URL. */
  urlVariable: string | undefined;
  /** Called for each part of the response. */
  onActivity: () => void;
}

/**
 * `fetch` for model calls. Reports each part of the response, so that silence is noticed. Refuses redirects, which would
 * send the key to another host, and responses that are a page or a document instead of a stream of events.
 */
export function guardedFetch(options: GuardedFetchOptions): typeof fetch {
  return async (input, init = {}) => {
    const response = await send(String(input), init);
    const { statusCode: status = 0, headers } = response;
    options.onActivity();
    const isRedirect = status >= 300 && status < 400;
    const type = headers["content-type"] ?? "";
    const isStream = status >= 400 || !/text\/html|application\/json/i.test(type);
    if (isRedirect || !isStream) response.destroy();
    if (isRedirect) throw redirected(options, headers.location ?? null);
    if (!isStream) throw notAStream(options, /html/i.test(type));
    // The constructor accepts no body, not even an empty one, for this status.
    const body = status === 204 ? null : bodyOf(response, options.onActivity);
    return new Response(body, { status, headers: Object.entries(headers).map(([name, value]) => [name, `${value}`]) });
  };
}

/** Sends a request. A model call takes a fifth less CPU than with `fetch`, whose every layer wraps the streams again. */
async function send(url: string, init: RequestInit): Promise<IncomingMessage> {
  const { method = "GET", signal } = init;
  const headers = { ...Object.fromEntries(new Headers(init.headers)), "accept-encoding": "identity" };
  const client = url.startsWith("https:") ? https : http;
  const request: ClientRequest = client.request(url, { method, headers, ...(signal && { signal }) });
  // After the response has begun, its body also reports the error.
  request.on("error", () => undefined);
  request.end(typeof init.body === "string" ? wellFormedJson(init.body) : init.body);
  try {
    const [response] = await once(request, "response");
    return response;
  } catch (error) {
    // The server has closed a connection that it had kept open, while the request was on its way.
    const isClosed = request.reusedSocket && (error as NodeJS.ErrnoException).code === "ECONNRESET";
    if (isClosed && !signal?.aborted) return send(url, init);
    throw error;
  }
}

/**
 * Replaces halves of surrogate pairs in JSON, which providers refuse. Texts that were cut to a length may end with one.
 * `JSON.stringify` escapes halves, and no whole pair.
 */
function wellFormedJson(json: string): string {
  if (!json.includes("\\ud")) return json;
  return json.replace(/\\(?:ud[89a-f][\da-f]{2}|.)/g, (found) => (found.length > 2 ? "\ufffd" : found));
}

function bodyOf(response: IncomingMessage, onActivity: () => void): ReadableStream<Uint8Array> {
  const chunks: AsyncIterator<Uint8Array> = response[Symbol.asyncIterator]();
  return new ReadableStream(
    {
      async pull(controller) {
        const { done, value } = await chunks.next();
        onActivity();
        if (done) controller.close();
        else controller.enqueue(value);
      },
      cancel: () => void response.destroy(),
    },
    { highWaterMark: 0 },
  );
}

function redirected({ provider, urlVariable }: GuardedFetchOptions, location: string | null): ModelFailureError {
  const target = location && URL.canParse(location) ? ` to ${new URL(location).host}` : "";
  const advice = urlVariable ? ` Set ${urlVariable} to the URL it redirects to.` : "";
  return new ModelFailureError(`${provider} answered with a redirect${target}, which is not followed.${advice}`, {
    retryable: false,
  });
}

function notAStream({ provider, urlVariable }: GuardedFetchOptions, isPage: boolean): ModelFailureError {
  const received = isPage ? "a web page instead of JSON" : "a document instead of a stream of events";
  const advice = urlVariable
    ? `Check ${urlVariable}: it should be the root of an API, often ending in /v1.`
    : "A proxy may be answering in its place.";
  return new ModelFailureError(`${provider} answered with ${received}. ${advice}`, { retryable: false });
}
