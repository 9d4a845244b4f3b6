import type { z } from "zod";
import { closestMatch } from "./closest-match.ts";

/**
 * Describes the validation issues of a file that a person wrote, in sentences: `limits.steps: Too small. Unknown field
 * tolsets. Did you mean toolsets?` `fieldsAt` returns the known fields at a path.
 */
export function describeProblems(
  issues: readonly z.core.$ZodIssue[],
  fieldsAt: (path: readonly PropertyKey[]) => readonly string[],
): string {
  return issues.flatMap((issue) => describe(issue, fieldsAt(issue.path))).join(" ");
}

function describe(issue: z.core.$ZodIssue, known: readonly string[]): string[] {
  const path = issue.path.map(String).join(".");
  if (issue.code !== "unrecognized_keys") return [`${path ? `${path}: ` : ""}${issue.message}.`];

  return issue.keys.map((key) => {
    const match = closestMatch(key, known);
    return `Unknown field ${path ? `${path}.` : ""}${key}.${match ? ` Did you mean ${match}?` : ""}`;
  });
}
