import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { endpoints, optionalEndpoints } from "#bot/manifest.ts";

/**
 * Writes `github-openapi.json`, the part of GitHub's published OpenAPI description that covers this app's requests. Run it
 * by hand when an endpoint is added to the manifest or GitHub publishes a new version. The whole description is too large
 * to be a dependency:
 *
 *   npm pack @octokit/openapi && tar xzf octokit-openapi-*.tgz
 *   node test/support/extract-openapi.ts package && rm -r package octokit-openapi-*.tgz
 */
const [folder] = process.argv.slice(2);
if (!folder) throw new Error("Name the folder of the unpacked @octokit/openapi.");

const read = (path: string) => readFile(join(folder, path), "utf8");
const { paths } = JSON.parse(await read("generated/api.github.com.deref.json")) as {
  paths: Record<string, Record<string, Operation>>;
};
const { name, version } = JSON.parse(await read("package.json"));

interface Operation {
  operationId: string;
  parameters?: { name: string; in: string; required?: boolean; schema: unknown }[];
  requestBody?: { required?: boolean; content: Record<string, { schema: unknown }> };
}

/** Documentation fields, which are not needed to validate requests. */
const forReaders = new Set(["description", "title", "example", "examples", "externalDocs"]);

function withoutWords(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(withoutWords);
  if (schema === null || typeof schema !== "object") return schema;
  const entries = Object.entries(schema).flatMap(([key, value]) => {
    // A property may be called `description`.
    if (key === "properties") return [[key, mapValues(value as object, withoutWords)]];
    return forReaders.has(key) || key.startsWith("x-") ? [] : [[key, withoutWords(value)]];
  });
  return Object.fromEntries(entries);
}

function mapValues(object: object, change: (value: unknown) => unknown): object {
  return Object.fromEntries(Object.entries(object).map(([key, value]) => [key, change(value)]));
}

const operations = Object.keys({ ...endpoints, ...optionalEndpoints }).map((endpoint) => {
  const [method = "", path = ""] = endpoint.split(" ");
  const operation = paths[path]?.[method.toLowerCase()];
  if (!operation) throw new Error(`GitHub publishes no ${endpoint}`);

  const { operationId, parameters = [], requestBody } = operation;
  return {
    method,
    path,
    operationId,
    parameters: parameters
      .filter((parameter) => parameter.in === "path" || parameter.in === "query")
      .map(({ name, in: place, required = false, schema }) => ({
        name,
        in: place,
        required,
        schema: withoutWords(schema),
      })),
    ...(requestBody && {
      body: {
        required: requestBody.required ?? false,
        schema: withoutWords(requestBody.content["application/json"]?.schema ?? {}),
      },
    }),
  };
});

const whole = { origin: `${name} ${version}`, license: await read("LICENSE"), operations };
await writeFile(new URL("./github-openapi.json", import.meta.url), `${JSON.stringify(whole, null, 1)}\n`);
