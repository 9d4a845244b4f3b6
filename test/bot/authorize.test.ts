import { expect, test } from "vitest";
import { createAuthorize } from "#bot/authorize.ts";
import type { GitHub, Permission } from "#github.ts";

const repository = { installationId: 7, owner: "octo", repo: "shop" };
const githubWhere = (permission: Permission): GitHub =>
  ({ repository, permissionOf: async () => permission }) as Partial<GitHub> as GitHub;

test.each<[Permission, string]>([
  ["admin", "allowed"],
  ["maintain", "allowed"],
  ["write", "allowed"],
  ["triage", "told"],
  ["read", "told"],
  ["none", "told"],
])("%s is %s", async (permission, standing) => {
  expect(await createAuthorize()(githubWhere(permission), { login: "tom", thread: 1 })).toBe(standing);
});

test("a refusal is put into words once an hour for a person and a thread, whatever the case of the name", async () => {
  let now = 0;
  const authorize = createAuthorize(() => now);
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

test("ten thousand strangers do not fill the memory: the oldest are told again", async () => {
  const authorize = createAuthorize(() => 0);
  const github = githubWhere("none");
  for (let number = 0; number <= 10_000; number++) await authorize(github, { login: `s${number}`, thread: 1 });

  expect(await authorize(github, { login: "s10000", thread: 1 })).toBe("reminded");
  expect(await authorize(github, { login: "s0", thread: 1 })).toBe("told");
});
