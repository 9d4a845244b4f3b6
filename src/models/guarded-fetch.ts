import { ModelFailure } from "./models.ts";

/**
 * `fetch` for asking a provider: tells of every piece of the answer as it arrives, so that silence is noticed;
 * follows no redirect, which would carry the key to another host; and refuses a page or a document where a stream of
 * events was asked for. `who` names the provider, `where` the setting that holds its address.
 */
export function guardedFetch({
  who,
  where,
  heard,
}: {
  who: string;
  where: string | undefined;
  heard: () => void;
}): typeof fetch {
  return async (input, init) => {
    const response = await fetch(input, { ...init, redirect: "manual" });
    heard();
    if (response.status >= 300 && response.status < 400) throw redirected(who, where, response.headers.get("location"));
    if (!response.ok || !response.body) return response;

    const type = response.headers.get("content-type") ?? "";
    if (/text\/html|application\/json/i.test(type)) {
      await response.body.cancel();
      throw notAStream(who, where, /html/i.test(type));
    }
    return new Response(response.body.pipeThrough(listen(heard)), response);
  };
}

function listen(heard: () => void): TransformStream<Uint8Array, Uint8Array> {
  return new TransformStream({
    transform(piece, controller) {
      heard();
      controller.enqueue(piece);
    },
  });
}

function redirected(who: string, where: string | undefined, location: string | null): ModelFailure {
  const target = location && URL.canParse(location) ? ` to ${new URL(location).host}` : "";
  const advice = where ? ` Set ${where} to the address it points to.` : "";
  return new ModelFailure(`${who} sends its callers away with a redirect${target}, which is not followed.${advice}`, {
    retryable: false,
  });
}

function notAStream(who: string, where: string | undefined, isPage: boolean): ModelFailure {
  const what = isPage ? "a web page instead of JSON" : "a document instead of a stream of events";
  const advice = where
    ? `Check ${where}: it should be the root of an API, often ending in /v1.`
    : "Something between here and it, such as a proxy, may be answering instead.";
  return new ModelFailure(`${who} answered with ${what}. ${advice}`, { retryable: false });
}
