import { isTooComplex } from "#domain/json-schema.ts";

const [quote, backslash, lineFeed, comma, bracket, brace] = [0x22, 0x5c, 0x0a, 0x2c, 0x5b, 0x7b] as const;

/**
 * Counts the values of JSON that arrives in pieces, before it is parsed: a megabyte of empty objects takes a hundred times
 * as long to parse as a megabyte of text. A line feed ends a string, since a string of valid JSON contains none.
 */
export class JsonValueCounter {
  #isInString = false;
  #isEscaped = false;
  #count = 0;

  /** Returns the number of values so far, at most. */
  add(bytes: Uint8Array): number {
    let [isInString, isEscaped, count] = [this.#isInString, this.#isEscaped, this.#count];
    for (const byte of bytes) {
      if (isInString) {
        if (isEscaped) isEscaped = false;
        else if (byte === backslash) isEscaped = true;
        else if (byte === quote || byte === lineFeed) isInString = false;
      } else if (byte === quote) isInString = true;
      else if (byte === comma || byte === bracket || byte === brace) count += 1;
    }
    [this.#isInString, this.#isEscaped, this.#count] = [isInString, isEscaped, count];
    return count;
  }
}

export function hasMoreValues(json: Uint8Array, maxValues: number): boolean {
  return json.length > maxValues && new JsonValueCounter().add(json) > maxValues;
}

/** Parses JSON. Returns undefined if it is not valid. */
export function parseJson(json: string): unknown {
  try {
    return JSON.parse(json);
  } catch {
    return undefined;
  }
}

/** Parses a JSON object of moderate size, such as the arguments that a person gives. Returns undefined for anything else. */
export function parseJsonObject(json: string): Record<string, unknown> | undefined {
  const value = parseJson(json);
  return isObject(value) && !isTooComplex(value) ? value : undefined;
}

/** True for an object of JSON: neither null nor a list. */
export function isObject(value: unknown): value is Record<string, unknown> {
  return value !== null && typeof value === "object" && !Array.isArray(value);
}
