import { ModelFailure } from "./models.ts";

export interface GuardedFetchOptions {
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
  return async (input, init) => {
    const response = await fetch(input, { ...init, redirect: "manual" });
    options.onActivity();
    if (response.status >= 300 && response.status < 400) throw redirected(options, response.headers.get("location"));
    if (!response.ok || !response.body) return response;

    const type = response.headers.get("content-type") ?? "";
    if (/text\/html|application\/json/i.test(type)) {
      await response.body.cancel();
      throw notAStream(options, /html/i.test(type));
    }
    return new Response(response.body.pipeThrough(reportActivity(options.onActivity)), response);
  };
}

function reportActivity(onActivity: () => void): TransformStream<Uint8Array, Uint8Array> {
  return new TransformStream({
    transform(chunk, controller) {
      onActivity();
      controller.enqueue(chunk);
    },
  });
}

function redirected({ provider, urlVariable }: GuardedFetchOptions, location: string | null): ModelFailure {
  const target = location && URL.canParse(location) ? ` to ${new URL(location).host}` : "";
  const advice = urlVariable ? ` Set ${urlVariable} to the URL it redirects to.` : "";
  return new ModelFailure(`${provider} answered with a redirect${target}, which is not followed.${advice}`, {
    retryable: false,
  });
}

function notAStream({ provider, urlVariable }: GuardedFetchOptions, isPage: boolean): ModelFailure {
  const received = isPage ? "a web page instead of JSON" : "a document instead of a stream of events";
  const advice = urlVariable
    ? `Check ${urlVariable}: it should be the root of an API, often ending in /v1.`
    : "A proxy may be answering in its place.";
  return new ModelFailure(`${provider} answered with ${received}. ${advice}`, { retryable: false });
}
