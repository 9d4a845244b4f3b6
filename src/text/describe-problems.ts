import type { z } from "zod";
import { closestMatch } from "./closest-match.ts";

/**
 * Everything a schema found wrong with what a person wrote, as sentences: `limits.steps: Too small. unknown field tolsets,
 * did you mean toolsets.` `fieldsAt` names the fields that are known at a place.
 */
export function describeProblems(
  issues: readonly z.core.$ZodIssue[],
  fieldsAt: (path: readonly PropertyKey[]) => readonly string[],
): string {
  return issues.flatMap((issue) => describe(issue, fieldsAt(issue.path))).join(" ");
}

function describe(issue: z.core.$ZodIssue, known: readonly string[]): string[] {
  const place = issue.path.map(String).join(".");
  if (issue.code !== "unrecognized_keys") return [`${place ? `${place}: ` : ""}${issue.message}.`];

  return issue.keys.map((key) => {
    const near = closestMatch(key, known);
    return `unknown field ${place ? `${place}.` : ""}${key}${near ? `, did you mean ${near}` : ""}.`;
  });
}
