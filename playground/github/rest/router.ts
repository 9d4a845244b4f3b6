import { ApiError } from "./api-error.ts";
import { appOperations } from "./app-operations.ts";
import { issueOperations } from "./issue-operations.ts";
import type { RestOperation } from "./operation.ts";
import { pullOperations } from "./pull-operations.ts";
import { repositoryOperations } from "./repository-operations.ts";
import { userOperations } from "./user-operations.ts";

/** An operation found for a request, with the parts of its path. */
export interface Route {
  operation: RestOperation;
  params: Record<string, string>;
}

const routes = [
  ...appOperations,
  ...issueOperations,
  ...pullOperations,
  ...repositoryOperations,
  ...userOperations,
].map((operation) => ({
  operation,
  pattern: patternOf(operation.path),
}));

/** The operation for a method and a path without `/api/v3`; undefined when there is none here. */
export function findRoute(method: string, path: string): Route | undefined {
  for (const { operation, pattern } of routes) {
    const match = operation.method === method.toLowerCase() ? pattern.exec(path) : null;
    if (match) return { operation, params: decodeAll(match.groups ?? {}) };
  }
  return undefined;
}

function patternOf(template: string): RegExp {
  const source = template.replace(/\{(\w+)\}/g, (_, name: string) => {
    // Paths and refs have slashes of their own.
    return name === "path" || name === "ref" ? `(?<${name}>.*)` : `(?<${name}>[^/]+)`;
  });
  // The root folder is asked for with and without a slash at the end.
  return new RegExp(`^${source.replace("/contents/(?<path>.*)", "/contents(?:/(?<path>.*))?")}$`);
}

function decodeAll(groups: Record<string, string | undefined>): Record<string, string> {
  try {
    return Object.fromEntries(Object.entries(groups).map(([name, part]) => [name, decodeURIComponent(part ?? "")]));
  } catch {
    throw new ApiError(400, "The address is not valid");
  }
}
