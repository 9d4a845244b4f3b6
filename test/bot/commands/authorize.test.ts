import { expect, test } from "vitest";
import { createAuthorize } from "#bot/commands/authorize.ts";
import type { GitHub, Permission } from "#domain/github.ts";

/** What the store does for keys. */
function firstTimes() {
  const known = new Set<string>();
  return async (key: string) => known.size < known.add(key).size;
}

const repository = { installationId: 7, owner: "octo", repo: "shop" };
const githubWhere = (permission: Permission): GitHub =>
  ({ repository, getPermission: async () => permission }) as Partial<GitHub> as GitHub;

test.each<[Permission, string]>([
  ["admin", "allowed"],
  ["maintain", "allowed"],
  ["write", "allowed"],
  ["triage", "denied"],
  ["read", "denied"],
  ["none", "denied"],
])("%s is %s", async (permission, standing) => {
  expect(await createAuthorize(firstTimes())(githubWhere(permission), { login: "tom", thread: 1 })).toBe(standing);
});

test("a refusal is a reply at most once an hour per person and thread, whatever the case of the name", async () => {
  let now = 0;
  const authorize = createAuthorize(firstTimes(), () => now);
  const ask = (login: string, thread: number) => authorize(githubWhere("read"), { login, thread });

  expect([await ask("tom", 1), await ask("Tom", 1), await ask("tom", 2), await ask("eve", 1)]).toEqual([
    "denied",
    "deniedAgain",
    "denied",
    "denied",
  ]);
  now = 59 * 60_000;
  expect(await ask("tom", 1)).toBe("deniedAgain");
  now = 60 * 60_000;
  expect(await ask("tom", 1)).toBe("denied");
});

test("someone refused before a restart is not replied to again after it", async () => {
  const isFirst = firstTimes();
  const ask = () => createAuthorize(isFirst, () => 0)(githubWhere("none"), { login: "tom", thread: 1 });

  expect([await ask(), await ask()]).toEqual(["denied", "deniedAgain"]);
});
