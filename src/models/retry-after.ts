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
