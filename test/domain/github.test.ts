import { describe, expect, test } from "vitest";
import {
  BlockedError,
  InvalidFileError,
  OutageError,
  ToolError,
  type ToolErrorCode,
  UserError,
} from "#domain/errors.ts";
import {
  type Account,
  canWrite,
  GitHubRefusalError,
  hasPermission,
  isSameAccount,
  type Permission,
} from "#domain/github.ts";

const permissions: Permission[] = ["none", "read", "triage", "write", "maintain", "admin"];

test("people with write access or more may command a worker", () => {
  expect(permissions.filter(canWrite)).toEqual(["write", "maintain", "admin"]);
});

test.each<[Permission, Permission[]]>([
  ["none", permissions],
  ["triage", ["triage", "write", "maintain", "admin"]],
  ["maintain", ["maintain", "admin"]],
  ["admin", ["admin"]],
])("where %s is needed, these suffice: %j", (needed, sufficient) => {
  expect(permissions.filter((permission) => hasPermission(permission, needed))).toEqual(sufficient);
});

test.each<[Account, Account, boolean]>([
  [{ login: "ada", id: 1 }, { login: "renamed", id: 1 }, true],
  [{ login: "ada", id: 1 }, { login: "ada", id: 2 }, false],
  [{ login: "ada", id: 1 }, { login: "ADA" }, true],
  [{ login: "Ada" }, { login: "ada", id: 1 }, true],
  [{ login: "ada" }, { login: "eve" }, false],
])("%j and %j are the same account: %s", (one, two, same) => {
  expect(isSameAccount(one, two)).toBe(same);
});

describe("error of a tool", () => {
  test.each<[ToolErrorCode, string]>([
    ["INVALID_ARGUMENTS", "validation_error"],
    ["INVALID_PATH", "security_error"],
    ["PERMISSION_DENIED", "permission_error"],
    ["READ_ONLY", "permission_error"],
    ["DENIED", "permission_error"],
    ["BLOCKED", "permission_error"],
    ["EXPIRED", "permission_error"],
    ["MANUAL_TOOL", "permission_error"],
    ["TIMEOUT", "system_error"],
    ["UNAVAILABLE", "system_error"],
    ["EXECUTION_ERROR", "system_error"],
    ["INVALID_OUTPUT", "system_error"],
    ["INTERRUPTED", "interrupted"],
    ["NO_MATCH", "user_error"],
  ])("%s is a %s", (code, type) => {
    expect(new ToolError("No.", { code }).type).toBe(type);
  });

  test("the error of a tool keeps what it is given", () => {
    const cause = new Error("why");
    const error = new ToolError("No.", {
      code: "CONFLICT",
      type: "system_error",
      suggestion: "Wait.",
      details: { a: 1 },
      cause,
    });

    expect(error).toBeInstanceOf(UserError);
    expect(error).toMatchObject({
      message: "No.",
      type: "system_error",
      suggestion: "Wait.",
      details: { a: 1 },
      cause,
    });
  });

  test("the error of a tool that policy blocks names the tool and the reason", () => {
    const error = new BlockedError("deploy", "It is Friday.");

    expect(error).toBeInstanceOf(ToolError);
    expect(error).toMatchObject({ code: "BLOCKED", toolName: "deploy", reason: "It is Friday." });
    expect(error.message).toBe("Tool 'deploy' blocked: It is Friday.");
  });
});

test("errors keep their cause and their details", () => {
  const cause = new Error("why");

  expect(new OutageError("Down.", { cause, retryAt: 5 })).toMatchObject({ message: "Down.", cause, retryAt: 5 });
  expect(new OutageError("Down.").retryAt).toBeUndefined();
  expect(new GitHubRefusalError("No.", { status: 403, cause })).toMatchObject({ message: "No.", cause, status: 403 });
  expect(new InvalidFileError("No.", [{ message: "x" }], { cause })).toMatchObject({
    problems: [{ message: "x" }],
    cause,
  });
});
