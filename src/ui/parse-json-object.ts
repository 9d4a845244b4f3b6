import { isTooComplex } from "#domain/json-schema.ts";

/** Parses the JSON object that a person gives as the arguments of a call. Returns undefined for anything else. */
export function parseJsonObject(json: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(json);
    return isObject(value) && !isTooComplex(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return value !== null && typeof value === "object" && !Array.isArray(value);
}
