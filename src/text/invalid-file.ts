import type { z } from "zod";
import { describeMismatch, valueAt } from "#domain/describe-schema-issue.ts";
import { InvalidFileError } from "#domain/errors.ts";
import { closestMatch } from "./closest-match.ts";
import { positionInYaml } from "./read-yaml.ts";

/** Returns the known fields at a path of a file. */
export type FieldsAt = (path: readonly PropertyKey[]) => readonly string[];

/**
 * Describes the validation issues of data that a person wrote, in sentences: `limits.steps: Expected number, got string.
 * Unknown field tolsets. Did you mean toolsets?`
 */
export function describeProblems(issues: readonly z.core.$ZodIssue[], fieldsAt: FieldsAt, value: unknown): string {
  return issues
    .flatMap((issue) => describe(issue, fieldsAt, value))
    .map(({ message }) => message)
    .join(" ");
}

export interface InvalidYaml {
  issues: readonly z.core.$ZodIssue[];
  fieldsAt: FieldsAt;
  /** The parsed YAML. */
  value: unknown;
  yaml: string;
  /** The line of the file on which the YAML begins. Default: 1. */
  firstLine?: number;
}

/** Describes the validation issues of a YAML file, with their positions. `summary` starts the message: `x.yml is not valid`. */
export function invalidFile(summary: string, { issues, fieldsAt, value, yaml, firstLine = 1 }: InvalidYaml): Error {
  const problems = issues.flatMap((issue) => describe(issue, fieldsAt, value));
  const message = problems.map((problem) => problem.message).join(" ");
  return new InvalidFileError(
    `${summary}: ${message}`,
    problems.map((problem) => ({ message: problem.message, ...positionInYaml(yaml, problem.path, firstLine) })),
  );
}

interface Problem {
  message: string;
  path: readonly PropertyKey[];
}

function describe(issue: z.core.$ZodIssue, fieldsAt: FieldsAt, root: unknown): Problem[] {
  const path = issue.path.map(String).join(".");
  if (issue.code === "unrecognized_keys") {
    const known = fieldsAt(issue.path);
    return issue.keys.map((key) => {
      const match = closestMatch(key, known);
      const message = `Unknown field ${path ? `${path}.` : ""}${key}.${match ? ` Did you mean ${match}?` : ""}`;
      return { message, path: [...issue.path, key] };
    });
  }
  const value = valueAt(root, issue.path);
  if (value === undefined && path && issue.code !== "custom")
    return [{ message: `${path} is missing.`, path: issue.path }];
  // A custom message of the schema is more helpful than the mismatch.
  const isDefault = issue.message.startsWith("Invalid ");
  const mismatch = isDefault ? describeMismatch({ ...issue, path: [...issue.path] }, value) : issue.message;
  return [{ message: `${path ? `${path}: ` : ""}${mismatch}.`, path: issue.path }];
}
