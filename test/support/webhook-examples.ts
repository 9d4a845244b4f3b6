import { createRequire } from "node:module";

type Json = null | boolean | number | string | Json[] | { [key: string]: Json };

interface Example {
  name: string;
  examples: { action?: string; [key: string]: Json | undefined }[];
}

const published: Example[] = createRequire(import.meta.url)("@octokit/webhooks-examples");

/**
 * Compares a webhook payload with the examples that GitHub has published for its event and action, or else for its event.
 * Returns the fields that all examples have and the payload lacks or has with another type.
 */
export function missingFields(event: string, action: string | undefined, payload: { [key: string]: Json }): string[] {
  const ofEvent = published.find(({ name }) => name === event)?.examples ?? [];
  if (ofEvent.length === 0) throw new Error(`GitHub has published no example of ${event}.`);

  const ofAction = ofEvent.filter((example) => example.action === action);
  const examples = ofAction.length > 0 ? ofAction : ofEvent.map((example) => sharedFields(example, payload));
  const [first = [], ...others] = examples.map((example) => differences(example as Json, payload, ""));
  return first.filter((problem) => !ignored.test(problem) && others.every((other) => other.includes(problem)));
}

/** Drops fields that the payload lacks, since an example of another action may have additional ones. */
function sharedFields(example: Example["examples"][number], payload: object): object {
  return Object.fromEntries(Object.entries(example).filter(([key]) => Object.hasOwn(payload, key)));
}

/** Permissions differ from app to app; the others differ between the examples and what GitHub sends today. */
const ignored = /\.permissions\.|^issue\.draft |^installation\.\w+_at:/;

function differences(example: Json, payload: Json, path: string): string[] {
  if (example === null || payload === null) return [];
  if (typeOf(example) !== typeOf(payload)) return [`${path}: ${typeOf(payload)} instead of ${typeOf(example)}`];
  if (Array.isArray(example) || typeof example !== "object" || Array.isArray(payload) || typeof payload !== "object") {
    return [];
  }
  return Object.entries(example).flatMap(([key, value]) => {
    const name = path === "" ? key : `${path}.${key}`;
    const own = payload[key];
    return own === undefined ? [`${name} is missing`] : differences(value, own, name);
  });
}

function typeOf(value: Json): string {
  return Array.isArray(value) ? "array" : typeof value;
}
