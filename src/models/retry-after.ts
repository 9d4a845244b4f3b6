/**
 * How long a provider asks us to wait, in milliseconds, from its answer's headers (`retry-after-ms`, or `retry-after`
 * in seconds or as a date) or, as Google says it, from the body. Undefined when it does not say.
 */
export function retryAfter(
  headers: Record<string, string> | undefined,
  body: string | undefined,
  now = Date.now(),
): number | undefined {
  const said = headers ?? {};
  return milliseconds(said["retry-after-ms"], 1) ?? fromRetryAfter(said["retry-after"], now) ?? fromGoogle(body);
}

function fromRetryAfter(value: string | undefined, now: number): number | undefined {
  if (value === undefined) return undefined;
  const seconds = milliseconds(value, 1_000);
  if (seconds !== undefined) return seconds;

  const date = Date.parse(value);
  // A bare word or a negative number is no date, whatever Date.parse makes of it.
  return /[a-z]{3}.*:\d\d/i.test(value) && !Number.isNaN(date) ? Math.max(0, date - now) : undefined;
}

function fromGoogle(body: string | undefined): number | undefined {
  return milliseconds(/"retryDelay"\s*:\s*"(\d+(?:\.\d+)?)s"/.exec(body ?? "")?.[1], 1_000);
}

function milliseconds(value: string | undefined, unit: number): number | undefined {
  return value !== undefined && /^\s*\d+(\.\d+)?\s*$/.test(value) ? Math.ceil(Number(value) * unit) : undefined;
}
