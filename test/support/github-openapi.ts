import { readFileSync } from "node:fs";
import { Ajv, type ValidateFunction } from "ajv";
import type { RequestRecord } from "#playground/github/request-log.ts";

interface Operation {
  method: string;
  path: string;
  parameters: { name: string; in: "path" | "query"; required: boolean; schema: object }[];
  body?: { required: boolean; schema: object };
}

const { operations } = JSON.parse(readFileSync(new URL("./github-openapi.json", import.meta.url), "utf8")) as {
  operations: Operation[];
};

// GitHub has its own formats, such as `repo.nwo`. Parameters are strings, so they are coerced to their types.
const options = { strict: false, validateFormats: false, allErrors: true };
const bodies = new Ajv(options);
const parameters = new Ajv({ ...options, coerceTypes: true });

const described = operations.map((operation) => ({
  ...operation,
  pattern: patternOf(operation.path),
  checkBody: bodies.compile(operation.body ? closed(operation.body.schema) : { type: "null" }),
  checks: new Map(operation.parameters.map((one) => [one.name, parameters.compile(wrapped(one.schema))])),
}));

/** Returns the operation of a request to the REST API, and the problems with the request. */
export function checkRequest({ method, path, body }: Pick<RequestRecord, "method" | "path" | "body">): {
  operation: string | undefined;
  problems: string[];
} {
  const url = new URL(path, "http://github.invalid");
  const found = described.find((one) => one.method === method && one.pattern.test(url.pathname));
  if (!found) return { operation: undefined, problems: [`GitHub publishes no ${method} ${url.pathname}`] };

  const inPath = Object.entries(found.pattern.exec(url.pathname)?.groups ?? {});
  const values = new Map([
    ...inPath.map(([key, value]) => [key, decodeURIComponent(value)] as const),
    ...url.searchParams,
  ]);
  const problems = [
    ...found.parameters.filter((one) => one.required && !values.has(one.name)).map(({ name }) => `${name} is missing`),
    ...[...values].flatMap(([key, value]) => problemsOf(found.checks.get(key), { value }, `parameter ${key}`)),
    ...(body === undefined && !found.body?.required
      ? []
      : problemsOf(found.checkBody, body === undefined ? null : body, "body")),
  ];
  return { operation: `${found.method} ${found.path}`, problems };
}

function problemsOf(check: ValidateFunction | undefined, value: unknown, what: string): string[] {
  if (!check) return [`${what} is not known`];
  if (check(value)) return [];
  return (check.errors ?? []).map(({ instancePath, message, params }) => {
    return `${what}${instancePath}: ${message} ${JSON.stringify(params)}`;
  });
}

/** A file path may contain slashes; every other parameter is a single segment. */
function patternOf(template: string): RegExp {
  const pattern = template.replace(/\{(\w+)\}/g, (_, name) => `(?<${name}>${name === "path" ? ".+" : "[^/]+"})`);
  return new RegExp(`^${pattern}$`);
}

/** Forbids additional properties if GitHub lists the properties of an object: an unlisted one is our mistake. */
function closed(schema: unknown): object {
  if (schema === null || typeof schema !== "object") return schema as never;
  if (Array.isArray(schema)) return schema.map(closed);
  const copy = Object.fromEntries(Object.entries(schema).map(([key, value]) => [key, closed(value)]));
  return "properties" in copy && !("additionalProperties" in copy) ? { ...copy, additionalProperties: false } : copy;
}

/** Wraps a value in an object, because Ajv can only coerce properties. */
function wrapped(schema: object): object {
  return { type: "object", properties: { value: schema }, required: ["value"] };
}
