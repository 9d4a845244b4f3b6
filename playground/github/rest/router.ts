import { ApiError } from "./api-error.ts";
import { appOperations } from "./app-operations.ts";
import { checkOperations } from "./check-operations.ts";
import { gitOperations } from "./git-operations.ts";
import { issueOperations } from "./issue-operations.ts";
import type { RestOperation } from "./operation.ts";
import { pullOperations } from "./pull-operations.ts";
import { repositoryOperations } from "./repository-operations.ts";
import { reviewOperations } from "./review-operations.ts";
import { userOperations } from "./user-operations.ts";

/** The operation for a request, with the parts of its path. */
export interface Route {
  operation: RestOperation;
  params: Record<string, string>;
}

const operations = [
  ...appOperations,
  ...checkOperations,
  ...gitOperations,
  ...issueOperations,
  ...pullOperations,
  ...repositoryOperations,
  ...reviewOperations,
  ...userOperations,
];

const routes = operations
  .map((operation) => ({ operation, pattern: patternOf(operation.path) }))
  // A fixed segment goes before a parameter in the same place: `/pulls/comments/1` is not pull request "comments".
  .sort((a, b) => specificity(b.operation.path) - specificity(a.operation.path));

function specificity(path: string): number {
  return path.split("/").filter((segment) => !segment.startsWith("{")).length;
}

/** Finds the operation for a method and a path without `/api/v3`. */
export function findRoute(method: string, path: string): Route | undefined {
  for (const { operation, pattern } of routes) {
    const match = operation.method === method.toLowerCase() ? pattern.exec(path) : null;
    if (match) return { operation, params: decodeAll(match.groups ?? {}) };
  }
  return undefined;
}

function patternOf(template: string): RegExp {
  const source = template.replace(/\{(\w+)\}/g, (_, name: string) => {
    // Paths, refs and branches contain slashes.
    return ["path", "ref", "branch", "basehead"].includes(name) ? `(?<${name}>.*)` : `(?<${name}>[^/]+)`;
  });
  // The root folder has a path with or without a slash at the end.
  return new RegExp(`^${source.replace("/contents/(?<path>.*)", "/contents(?:/(?<path>.*))?")}$`);
}

function decodeAll(groups: Record<string, string | undefined>): Record<string, string> {
  try {
    return Object.fromEntries(Object.entries(groups).map(([name, part]) => [name, decodeURIComponent(part ?? "")]));
  } catch {
    throw new ApiError(400, "The address is not valid");
  }
}
