import { describe, expect, test } from "vitest";
import { parseRepositorySettings } from "#config/repository-settings.ts";
import type { Account } from "#domain/github.ts";
import type { Preview } from "#domain/preview.ts";
import {
  type ApproverFacts,
  countApprovals,
  describeRequirement,
  requirementsOf,
  resolveAccounts,
} from "#runtime/approval-rules.ts";

const accounts: Record<string, number> = { ada: 1, grace: 2, mia: 3, tom: 4 };
const person = (login: string): Account => ({ login, id: accounts[login] });

function changing(...paths: string[]): Preview {
  return {
    sections: paths.map((path) => ({
      kind: "file" as const,
      change: { path, kind: "added" as const, newMode: "100644" as const, newBlob: "b".repeat(40), size: 1 },
      diff: "+a",
    })),
  };
}

interface World {
  settings: string;
  codeowners?: string;
  paths?: string[];
  tool?: string;
  toolName?: string;
  toolAliases?: string[];
  workerPath?: string;
  authors?: Account[];
  requester?: Account;
  facts?: Partial<ApproverFacts["repository"]>;
  remembered?: Record<string, number>;
}

/** Evaluates the approvals of these people for a call of a run that ada started. */
async function evaluate(
  { settings, codeowners, paths = [], authors = [], requester = person("ada"), facts, remembered = {}, ...call }: World,
  people: readonly Account[],
) {
  const requirements = await requirementsOf(
    { tool: "open_pull_request", workerPath: "fixer", preview: changing(...paths), ...call },
    parseRepositorySettings(settings),
    { readFile: async (path) => (path === "CODEOWNERS" ? codeowners : undefined) },
  );
  const counted = await countApprovals(requirements, people, {
    repository: {
      getPermission: async (login) => (login === "tom" ? "read" : login === "mia" ? "maintain" : "write"),
      findAccount: async (login) => (login in accounts ? { login, id: accounts[login] ?? 0 } : undefined),
      isTeamMember: async (team, { login }) => team === "acme/security" && login === "mia",
      ...facts,
    },
    accounts: remembered,
    requester,
    authors: async () => [requester, ...authors],
  });
  return {
    isMet: counted.every(({ by, required }) => by.length >= required),
    problems: counted.map(({ problem }) => problem).filter((problem) => problem !== undefined),
    described: requirements.map((requirement) => describeRequirement(requirement, "ada")),
  };
}

test("the ids of the people in the rules are looked up once each, in any case of the name", async () => {
  const requirements = await requirementsOf(
    { tool: "open_pull_request", workerPath: "fixer" },
    parseRepositorySettings(
      "approvals: [{ people: ['@Grace', mia, 7] }, { people: [grace, nobody] }, { required: 2 }]",
    ),
    { readFile: async () => undefined },
  );
  const asked: string[] = [];
  const findAccount = async (login: string) => {
    asked.push(login);
    return login in accounts ? { login, id: accounts[login] ?? 0 } : undefined;
  };

  expect(await resolveAccounts(requirements, { findAccount })).toStrictEqual({ grace: 2, mia: 3 });
  expect(asked.sort()).toEqual(["grace", "mia", "nobody"]);
});

describe("without rules", () => {
  test("anyone with write access approves", async () => {
    expect(await evaluate({ settings: "" }, [person("ada")])).toMatchObject({
      isMet: true,
      described: ["Anyone with write access"],
    });
    expect((await evaluate({ settings: "" }, [person("tom")])).problems).toEqual(["@tom does not have write access."]);
  });
});

describe("calls that a rule applies to", () => {
  const rule = (condition: string) => `approvals: [{ ${condition}, people: [mia] }]`;

  test.each<[string, Partial<World>, boolean]>([
    ["tools: [open_pull_request]", {}, true],
    ["tools: ['open_*']", {}, true],
    ["tools: [git_push]", {}, false],
    ["workers: [fixer]", { workerPath: "fixer -> tester" }, true],
    ["workers: [planner]", {}, false],
    ["workers: [Fixer]", { workerPath: "planner -> fixer" }, true],
    ["workers: ['fix*']", { workerPath: "FIXER" }, true],
    ["paths: ['src/**']", { paths: ["src/a/b.js"] }, true],
    ["paths: ['*.{sql,tf}']", { paths: ["a.js", "db/x.sql"] }, true],
    ["paths: [/src/]", { paths: ["docs/src/a.js"] }, false],
    ["tools: [open_pull_request], paths: [src/]", { paths: ["a.js"] }, false],
  ])("a rule with %s applies to %j: %s", async (condition, call, applies) => {
    expect((await evaluate({ settings: rule(condition), ...call }, [person("ada")])).isMet).toBe(!applies);
  });

  test("a rule applies to calls under an alias of the tool", async () => {
    const call = { tool: "create_pr", toolName: "open_pull_request" };
    const settings = rule("tools: [open_pull_request]");

    expect((await evaluate({ settings, ...call }, [person("ada")])).isMet).toBe(false);
  });

  test("a rule that names an alias applies to calls of the tool", async () => {
    const call = { tool: "shell", toolName: "shell", toolAliases: ["bash"] };

    expect((await evaluate({ settings: rule("tools: [bash]"), ...call }, [person("ada")])).isMet).toBe(false);
  });

  test("all rules that apply to a call have to be met", async () => {
    const settings = "approvers: [ada, mia]\napprovals: [{ people: [grace] }, { permission: maintain }]";

    expect((await evaluate({ settings }, [person("ada"), person("grace")])).isMet).toBe(false);
    expect((await evaluate({ settings }, [person("grace"), person("mia")])).isMet).toBe(true);
  });
});

describe("several people", () => {
  const settings = "approvals: [{ required: 2 }]";

  test("several people are different accounts, and neither the requester nor an author", async () => {
    const [grace, mia] = [person("grace"), person("mia")];

    expect((await evaluate({ settings }, [grace])).isMet).toBe(false);
    expect((await evaluate({ settings }, [grace, { login: "grace-renamed", id: 2 }])).isMet).toBe(false);
    expect((await evaluate({ settings }, [grace, person("ada")])).isMet).toBe(false);
    expect((await evaluate({ settings, authors: [mia] }, [grace, mia])).isMet).toBe(false);
    expect((await evaluate({ settings }, [grace, mia])).isMet).toBe(true);
  });

  test("several people may include the requester where the rule says so", async () => {
    const open = "approvals: [{ required: 2, exclude: nobody }]";

    expect((await evaluate({ settings: open }, [person("grace"), person("ada")])).isMet).toBe(true);
  });
});

describe("people are compared by id", () => {
  test("a login that someone else took over gains nothing, and the renamed person keeps the right", async () => {
    const facts = { findAccount: async (login: string) => ({ login, id: 99 }) };
    const world = { settings: "approvers: [grace]", remembered: { grace: 2 }, facts };

    expect((await evaluate(world, [{ login: "grace", id: 99 }])).isMet).toBe(false);
    expect((await evaluate(world, [{ login: "hopper", id: 2 }])).isMet).toBe(true);
  });

  test("the settings may name an account by its id", async () => {
    expect((await evaluate({ settings: "approvers: [2]" }, [person("grace")])).isMet).toBe(true);
    expect((await evaluate({ settings: "approvers: [2]" }, [person("mia")])).isMet).toBe(false);
  });

  test("the requester is recognized under another login", async () => {
    const [problem] = (await evaluate({ settings: "second_person: true" }, [{ login: "lovelace", id: 1 }])).problems;

    expect(problem).toContain("requires approval by a second person");
  });

  test("someone who took over the requester's login is another person", async () => {
    const settings = "second_person: true";

    expect(await evaluate({ settings, requester: { login: "grace", id: 9 } }, [person("grace")])).toMatchObject({
      isMet: true,
    });
  });

  test("a requester stored without an id is looked up; when the account is gone, nobody counts", async () => {
    const settings = "second_person: true";
    const [known, gone] = [{ login: "ada" }, { login: "gone" }];

    expect((await evaluate({ settings, requester: known }, [{ login: "lovelace", id: 1 }])).isMet).toBe(false);
    expect((await evaluate({ settings, requester: known }, [person("grace")])).isMet).toBe(true);
    expect((await evaluate({ settings, requester: gone }, [person("grace")])).isMet).toBe(false);
  });
});

describe("teams", () => {
  const settings = "approvals: [{ teams: [acme/security], people: [grace] }]";

  test("teams count in addition to people", async () => {
    expect((await evaluate({ settings }, [person("mia")])).isMet).toBe(true);
    expect((await evaluate({ settings }, [person("grace")])).isMet).toBe(true);
    expect((await evaluate({ settings }, [person("ada")])).problems).toEqual([
      "@ada may not approve here. Approvers: @grace or @acme/security.",
    ]);
  });

  test("teams that GitHub does not answer about are not a refusal", async () => {
    const isTeamMember = () => Promise.reject(new Error("503"));

    await expect(evaluate({ settings, facts: { isTeamMember } }, [person("mia")])).rejects.toThrow("503");
  });
});

describe("code owners", () => {
  const world = {
    settings: "approvals: [{ codeowners: true }]",
    codeowners: "*.js @grace\n/db/ @acme/security\n/open/\n",
  };

  test("code owners of every changed file have to approve", async () => {
    const both = { ...world, paths: ["a.js", "b.js", "db/x.sql"] };

    expect((await evaluate(both, [person("grace")])).isMet).toBe(false);
    expect((await evaluate(both, [person("mia")])).isMet).toBe(false);
    expect(await evaluate(both, [person("grace"), person("mia")])).toMatchObject({
      isMet: true,
      described: ["@grace as owner of a.js", "@acme/security as owner of db/x.sql"],
    });
  });

  test("code owners are needed only for files that have owners", async () => {
    expect((await evaluate({ ...world, paths: ["open/a.js", "readme.md"] }, [person("ada")])).isMet).toBe(true);
  });

  test("code owners of files without owners are anyone with the rule's permission, as many as it requires", async () => {
    const settings = "approvals: [{ codeowners: true, required: 2, permission: maintain }]";
    const { isMet, described } = await evaluate({ ...world, settings, paths: ["readme.md"] }, [person("mia")]);

    expect({ isMet, described }).toEqual({
      isMet: false,
      described: ["2 people: Anyone with maintain access, but not @ada or others who wrote input to this run,"],
    });
  });

  test("code owners that are named by e-mail address cannot be identified, so nobody can approve", async () => {
    const byMail = { ...world, codeowners: "* help@example.com", paths: ["a"] };

    expect(await evaluate(byMail, [person("grace")])).toMatchObject({
      isMet: false,
      described: ["Nobody the app can identify as owner of a"],
    });
  });
});

describe("descriptions of requirements", () => {
  test.each([
    ["approvers: [ada, 5]", "@ada or account 5"],
    ["approvers: ['@ada']", "@ada"],
    ["approvals: [{ teams: ['@acme/security'] }]", "@acme/security"],
    ["approvals: [{ people: [ada], permission: maintain }]", "@ada with maintain access"],
    ["approvals: [{ permission: admin }]", "Anyone with admin access"],
    ["approvals: [{ required: 2, exclude: nobody }]", "2 people: Anyone with write access"],
    [
      "approvals: [{ required: 2 }]",
      "2 people: Anyone with write access, but not @ada or others who wrote input to this run,",
    ],
    ["second_person: true", "Anyone with write access, but not @ada, who started this run,"],
  ])("a requirement is described, %s: %s", async (settings, described) => {
    expect((await evaluate({ settings }, [])).described).toEqual([described]);
  });
});

test("code owners count beside a rule that is not about them", async () => {
  const world = {
    settings: "approvals: [{ codeowners: true }, { people: [ada] }]",
    codeowners: "*.js @grace",
    paths: ["a.js"],
  };

  expect((await evaluate(world, [person("ada")])).isMet).toBe(false);
  expect((await evaluate(world, [person("ada"), person("grace")])).isMet).toBe(true);
});

test("a call of an embedding program, whose people have no account, is approved by login", async () => {
  const settings = "approvers: ['@Grace']";

  expect((await evaluate({ settings }, [{ login: "grace" }])).isMet).toBe(true);
  expect((await evaluate({ settings }, [{ login: "mia" }])).isMet).toBe(false);
});
