import { APICallError } from "ai";
import { createRedactor } from "#text/redact.ts";
import { truncateLine } from "#text/truncate.ts";
import { ModelFailureError } from "./models.ts";
import type { Provider } from "./providers.ts";

/** The known facts about an error, from an HTTP response, a stream event or the network. */
interface Facts {
  status: number | undefined;
  /** Error codes of the provider, such as `overloaded_error`, or of the operating system, such as `ECONNREFUSED`. */
  codes: string[];
  /** The provider's message. */
  message: string;
  body: string;
  headers: Record<string, string> | undefined;
}

/** A sentence for people, and whether a retry may help. */
interface Explanation {
  sentence: string;
  retryable: boolean;
}

/** Turns any error of a model call into a ModelFailureError with a message for people, without keys and passwords. */
export function explainFailure(error: unknown, provider: Provider, model: string): ModelFailureError {
  if (error instanceof ModelFailureError) return error;

  const facts = factsOf(error);
  const explain = facts.status === undefined ? explainConnectionError : explainStatus;
  const { sentence, retryable } = explainRefusal(facts, provider, model) ?? explain(facts, provider);
  const retryAfterMs = retryable ? retryAfter(facts.headers, facts.body) : undefined;
  // Without a cause: the SDK's error contains the whole request, and its message may quote the key.
  return new ModelFailureError(tidy(sentence, provider, 600), {
    retryable,
    ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
  });
}

function explainRefusal(facts: Facts, provider: Provider, model: string): Explanation | undefined {
  const { status, codes } = facts;
  const details = `${facts.message} ${facts.body} ${codes.join(" ")}`;
  const refuse = (sentence: string): Explanation => ({ sentence, retryable: false });

  if (status === 402 || isOutOfCredit.test(details)) {
    return refuse(`${provider.label} reports that the account has no credit left: ${quote(facts, provider)}`);
  }
  if (status === 401 || isBadKey.test(details)) {
    return refuse(`${provider.label} rejected the key. Check ${provider.keyVariable}.`);
  }
  if (status === 403) {
    return refuse(
      `${provider.label} refused the request (HTTP 403). Check ${provider.keyVariable}, and whether its account may use ${model}.`,
    );
  }
  if (status === 413 || (status !== 429 && isTooLong.test(details))) {
    return refuse(
      `The conversation is too long for ${model}. Use a model with a larger context, or start again with a smaller task.`,
    );
  }
  if (status !== 429 && isFiltered.test(details)) {
    return refuse(`${provider.label} withheld the answer: its content filter refused this conversation.`);
  }
  if (status === 404 || isUnknownModel.test(details)) {
    const hint = provider.urlVariable ? `, or the URL in ${provider.urlVariable} is wrong` : "";
    return refuse(`${provider.label} does not know the model ${model}${hint}.`);
  }
  return undefined;
}

function explainStatus(facts: Facts, provider: Provider): Explanation {
  const status = facts.status ?? 0;
  if (status === 429) {
    return { sentence: `${provider.label} is rate-limiting requests: ${quote(facts, provider)}`, retryable: true };
  }
  if (status === 529 || status === 503) {
    return { sentence: `${provider.label} is overloaded (HTTP ${status}).`, retryable: true };
  }
  if (status >= 500) {
    return {
      sentence: `${provider.label} failed (HTTP ${status}): ${quote(facts, provider)}`,
      retryable: true,
    };
  }
  const retryable = status === 408 || status === 409 || status === 425;
  return {
    sentence: `${provider.label} rejected the request (HTTP ${status}): ${quote(facts, provider)}`,
    retryable,
  };
}

function explainConnectionError(facts: Facts, provider: Provider): Explanation {
  const host = hostOf(provider);
  const has = (pattern: RegExp) => facts.codes.some((code) => pattern.test(code));

  if (has(/rate_limit/i)) return { sentence: `${provider.label} is rate-limiting requests.`, retryable: true };
  if (has(/overloaded|unavailable/i)) {
    return { sentence: `${provider.label} is overloaded.`, retryable: true };
  }
  if (has(/^(CERT_|DEPTH_ZERO|SELF_SIGNED|UNABLE_TO_|ERR_TLS|ERR_SSL)/)) {
    return { sentence: `${provider.label} at ${host} uses a certificate that is not trusted.`, retryable: false };
  }
  if (has(/^(ENOTFOUND|EAI_)/)) {
    return { sentence: `${provider.label} cannot be reached: the host ${host} was not found.`, retryable: true };
  }
  if (has(/^ECONNREFUSED$/)) {
    return {
      sentence: `${provider.label} cannot be reached: ${host} refused the connection. Is it running?`,
      retryable: true,
    };
  }
  if (has(/TIMEOUT|ETIMEDOUT/)) {
    return { sentence: `${provider.label} at ${host} did not answer in time.`, retryable: true };
  }
  if (has(/^(ECONN|EPIPE|ENET|EHOST|UND_ERR_SOCKET|UND_ERR_RES)/) || /terminated|fetch failed/.test(facts.message)) {
    return { sentence: `${provider.label} closed the connection before the end of its answer.`, retryable: true };
  }
  if (has(/server_error|api_error|timeout_error/i)) {
    return { sentence: `${provider.label} failed: ${quote(facts, provider)}`, retryable: true };
  }
  if (has(/JSONParse|TypeValidation|InvalidResponseData|EmptyResponseBody|NoContent/)) {
    return { sentence: `${provider.label} sent an invalid response.`, retryable: true };
  }
  return { sentence: `${provider.label} could not be called: ${quote(facts, provider)}`, retryable: false };
}

const isOutOfCredit =
  /insufficient_quota|insufficient_(balance|credits|funds)|credit balance is too low|billing_error/i;
const isBadKey = /api[ _]key not valid|API_KEY_INVALID|invalid[ _]api[ _]key|incorrect api key|authentication_error/i;
const isTooLong =
  /context[ _](length|window)|maximum context|prompt is too long|input is too long|too many (input |total )?tokens|token count.{0,40}exceeds|exceeds.{0,40}context|request_too_large|reduce the length/i;
const isFiltered =
  /content[ _](filter|policy|management)|content_policy_violation|responsible ai|prohibited_content|\bPROHIBITED\b/i;
const isUnknownModel = /model_not_found|not_found_error|model\b.{0,80}\b(not found|does not exist|is not supported)/i;

function factsOf(error: unknown): Facts {
  const chain = causes(error);
  const call = chain.find((link) => APICallError.isInstance(link));
  const status = call?.statusCode ?? record(chain[0]).statusCode;
  return {
    // A connection that breaks in the middle of an answer is reported with status 200.
    status: typeof status === "number" && status >= 400 ? status : undefined,
    codes: chain.flatMap(codesOf),
    message: chain.map((link) => text(record(link).message)).find((message) => message !== "") ?? text(chain[0]),
    body: (call?.responseBody ?? "").slice(0, 4_000),
    headers: call?.responseHeaders,
  };
}

/** An error and its causes, outermost first. */
function causes(error: unknown): unknown[] {
  const chain: unknown[] = [];
  for (let link = error; link !== undefined && link !== null && chain.length < 8; ) {
    chain.push(link);
    const { cause, errors } = record(link);
    link = cause ?? (Array.isArray(errors) ? errors[0] : undefined);
  }
  return chain;
}

function codesOf(link: unknown): string[] {
  const { code, type, name } = record(link);
  return [code, type, name].map(text).filter((word) => word !== "");
}

function record(value: unknown): Record<string, unknown> {
  return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};
}

function text(value: unknown): string {
  return typeof value === "string" || typeof value === "number" ? String(value) : "";
}

function quote(facts: Facts, provider: Provider): string {
  // An HTML page is of no use in a sentence.
  const message = /<\w/.test(facts.message) ? "" : tidy(facts.message, provider, 300);
  if (message === "") return "no reason given.";
  return /[.!?…]$/.test(message) ? message : `${message}.`;
}

function hostOf({ baseUrl }: Provider): string {
  return URL.canParse(baseUrl) ? new URL(baseUrl).host : "its URL";
}

/** Shortens a text to one line without keys, and without the user, password and query of URLs. */
function tidy(text: string, { apiKey }: Provider, limit: number): string {
  const redact = createRedactor(apiKey ? [apiKey] : []);
  const withoutCredentials = text
    .replaceAll(/\b(https?:\/\/)[^\s/@]*@/gi, "$1")
    .replaceAll(/(https?:\/\/[^\s?"']*)\?[^\s"']*/gi, "$1");
  const line = redact(withoutCredentials)
    .replaceAll(/\b(sk|pk|key|AIza)[-_][\w*-]{8,}/g, "[secret removed]")
    .replaceAll(/\s+/g, " ")
    .trim();
  return truncateLine(line, limit);
}

/**
 * Reads the delay that a provider asks for, in milliseconds: from the headers `retry-after-ms` or `retry-after` (seconds or
 * a date), or from Google's response body. Returns undefined if there is none.
 */
export function retryAfter(
  headers: Record<string, string> | undefined,
  body: string | undefined,
  now = Date.now(),
): number | undefined {
  const { "retry-after-ms": delayMs, "retry-after": delay } = headers ?? {};
  return milliseconds(delayMs, 1) ?? fromRetryAfter(delay, now) ?? fromGoogle(body);
}

function fromRetryAfter(value: string | undefined, now: number): number | undefined {
  if (value === undefined) return undefined;
  const seconds = milliseconds(value, 1_000);
  if (seconds !== undefined) return seconds;

  const date = Date.parse(value);
  // Date.parse also accepts single words and negative numbers.
  return /[a-z]{3}.*:\d\d/i.test(value) && !Number.isNaN(date) ? Math.max(0, date - now) : undefined;
}

function fromGoogle(body: string | undefined): number | undefined {
  return milliseconds(/"retryDelay"\s*:\s*"(\d+(?:\.\d+)?)s"/.exec(body ?? "")?.[1], 1_000);
}

function milliseconds(value: string | undefined, unit: number): number | undefined {
  return value !== undefined && /^\s*\d+(\.\d+)?\s*$/.test(value) ? Math.ceil(Number(value) * unit) : undefined;
}
