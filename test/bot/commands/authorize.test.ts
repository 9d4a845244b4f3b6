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
  ["triage", "told"],
  ["read", "told"],
  ["none", "told"],
])("%s is %s", async (permission, standing) => {
  expect(await createAuthorize(firstTimes())(githubWhere(permission), { login: "tom", thread: 1 })).toBe(standing);
});

test("a refusal is put into words once an hour for a person and a thread, whatever the case of the name", async () => {
  let now = 0;
  const authorize = createAuthorize(firstTimes(), () => now);
  const ask = (login: string, thread: number) => authorize(githubWhere("read"), { login, thread });

  expect([await ask("tom", 1), await ask("Tom", 1), await ask("tom", 2), await ask("eve", 1)]).toEqual([
    "told",
    "reminded",
    "told",
    "told",
  ]);
  now = 59 * 60_000;
  expect(await ask("tom", 1)).toBe("reminded");
  now = 60 * 60_000;
  expect(await ask("tom", 1)).toBe("told");
});

test("who was refused before a restart is only reminded after it", async () => {
  const isFirst = firstTimes();
  const ask = () => createAuthorize(isFirst, () => 0)(githubWhere("none"), { login: "tom", thread: 1 });

  expect([await ask(), await ask()]).toEqual(["told", "reminded"]);
});
