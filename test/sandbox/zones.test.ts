import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { ToolError, UserError } from "#domain/errors.ts";
import type { SandboxPolicy } from "#domain/worker.ts";
import { createZones } from "#sandbox/zones.ts";
import type { GitRepository } from "../support/git-server.ts";
import { pushAll, type SandboxWorld, startSandboxWorld, textOf } from "../support/sandbox-world.ts";

describe("a sandbox with a policy", () => {
  let world: SandboxWorld;
  let repository: GitRepository;
  beforeAll(async () => {
    world = await startSandboxWorld();
    repository = await world.repositoryWith({
      "README.md": "hello\n",
      "docs/guide.md": "guide\n",
      "docs/api/a.md": "a\n",
      "src/a.ts": "a\n",
      "src/secret": { link: "../README.md" },
      "srcery/b.ts": "b\n",
    });
  });
  afterAll(() => world.close());

  const open = (policy: SandboxPolicy) => world.open(repository, { policy });
  const code = (work: Promise<unknown>) =>
    work.then(
      () => "it worked",
      (error) => (error instanceof ToolError ? error.code : error),
    );

  test("a restricted worker sees one folder, with the repository's paths", async () => {
    const sandbox = await open({ restrict: "/src" });

    expect(await sandbox.paths()).toEqual(["src/a.ts"]);
    expect((await sandbox.list("/")).map(({ path }) => path)).toEqual(["src"]);
    expect((await sandbox.list("src")).map(({ path }) => path)).toEqual(["src/a.ts", "src/secret"]);
    expect(await code(sandbox.readBytes("README.md"))).toBe("INVALID_PATH");
    expect(await code(sandbox.readBytes("src/secret"))).toBe("INVALID_PATH");
    expect(await code(sandbox.readBytes("srcery/b.ts"))).toBe("INVALID_PATH");
    expect(await code(sandbox.write("new.md", "x"))).toBe("INVALID_PATH");
    expect(await code(sandbox.move("src/a.ts", "docs/a.ts"))).toBe("INVALID_PATH");
    expect(await code(sandbox.exists("docs"))).toBe("INVALID_PATH");
    await sandbox.write("src/new/c.ts", "c");
    expect(await sandbox.changes()).toEqual([{ path: "src/new/c.ts", status: "added" }]);
  });

  test("read-only files cannot be written, deleted or moved", async () => {
    const sandbox = await open({ zones: [{ name: "docs", mode: "ro" }] });

    expect(await code(sandbox.write("docs/guide.md", "x"))).toBe("READ_ONLY");
    expect(await code(sandbox.remove("docs", { recursive: true }))).toBe("READ_ONLY");
    expect(await code(sandbox.move("docs/guide.md", "guide.md"))).toBe("READ_ONLY");
    expect(await code(sandbox.move("README.md", "docs/readme2.md"))).toBe("READ_ONLY");
    expect(await code(sandbox.write("README.md", "x"))).toBe("it worked");
  });

  test("the most specific zone applies, and the policy's own rule elsewhere", async () => {
    const sandbox = await open({
      approval: { write: "ask" },
      zones: [
        { name: "docs", mode: "rw", approval: { write: "preApproved", delete: "blocked" } },
        { name: "api", path: "docs/api", mode: "ro" },
      ],
    });

    expect(sandbox.ruleFor("docs/guide.md")).toEqual({
      zone: "docs",
      mode: "rw",
      write: "preApproved",
      delete: "blocked",
    });
    expect(sandbox.ruleFor("docs/api/a.md")).toMatchObject({ zone: "api", mode: "ro", delete: undefined });
    expect(sandbox.ruleFor("src/a.ts")).toEqual({ zone: "", mode: "rw", write: "ask", delete: undefined });
    expect(sandbox.ruleFor("docsify")).toEqual({ zone: "", mode: "rw", write: "ask", delete: undefined });
    expect(await code(sandbox.remove("docs/guide.md"))).toBe("BLOCKED");
  });

  test("scratch files stay with the run and are never pushed, even when everything else is read-only", async () => {
    const policy: SandboxPolicy = { readonly: true, zones: [{ name: "scratch", keep: "run", mode: "rw" }] };
    const sandbox = await open(policy);

    expect(await sandbox.list("scratch")).toEqual([]);
    expect((await sandbox.list("/")).map(({ path }) => path)).toContain("scratch");
    await sandbox.write("/scratch/notes/plan.md", "plan");
    expect(await code(sandbox.write("src/a.ts", "x"))).toBe("READ_ONLY");
    expect(await sandbox.changes()).toEqual([]);
    expect(await sandbox.paths()).toContain("scratch/notes/plan.md");
    await expect(pushAll(sandbox, "golem/1")).rejects.toThrow("nothing to push");

    const stored = sandbox.pendingChanges("call-1");
    expect(stored?.changes.map(({ path, mode }) => [path, mode])).toEqual([["scratch/notes/plan.md", "scratch"]]);
    const restarted = await world.open(repository, { policy, changes: stored ? [stored] : [] });
    expect(textOf(await restarted.readBytes("scratch/notes/plan.md"))).toBe("plan");
    expect((await restarted.list("scratch", { recursive: true })).map(({ path }) => path)).toEqual([
      "scratch/notes",
      "scratch/notes/plan.md",
    ]);
  });

  test("moving a scratch file into the repository makes it a change", async () => {
    const sandbox = await open({ zones: [{ name: "scratch", keep: "run", mode: "rw" }] });
    await sandbox.write("scratch/draft.md", "draft");

    await sandbox.move("scratch/draft.md", "docs/final.md");

    expect(await sandbox.changes()).toEqual([{ path: "docs/final.md", status: "added" }]);
    expect(await sandbox.exists("scratch/draft.md")).toBe(false);
  });

  test("all changes that a command finds include scratch files, and files that are not staged", async () => {
    const sandbox = await open({ zones: [{ name: "scratch", keep: "run", mode: "rw" }] });
    await sandbox.write("scratch/json.py", "print()");
    await sandbox.write("docs/new.md", "new");
    await sandbox.remove("README.md");

    await sandbox.stage(["docs"]);

    const changes = (await sandbox.allChanges()).map(({ path, after }) => [path, after && textOf(after.content)]);
    expect(Object.fromEntries(changes)).toEqual({
      "README.md": undefined,
      "docs/new.md": "new",
      "scratch/json.py": "print()",
    });
    expect((await sandbox.outgoing()).map(({ path }) => path)).toEqual(["docs/new.md"]);
  });

  test("a child works on the same changes and cannot see more than its parent", async () => {
    const sandbox = await open({ restrict: "/docs", zones: [{ name: "api", path: "docs/api", mode: "ro" }] });
    await sandbox.write("docs/guide.md", "by the parent");

    const child = sandbox.restricted({ restrict: "/", zones: [{ name: "api", path: "docs/api", mode: "rw" }] });
    const elsewhere = sandbox.restricted({ restrict: "/src" });

    expect(textOf(await child.readBytes("docs/guide.md"))).toBe("by the parent");
    expect(await code(child.readBytes("README.md"))).toBe("INVALID_PATH");
    expect(await code(child.write("docs/api/a.md", "x"))).toBe("READ_ONLY");
    expect(await elsewhere.paths()).toEqual([]);
    expect(await code(elsewhere.readBytes("src/a.ts"))).toBe("INVALID_PATH");
    await child.write("docs/new.md", "by the child");
    expect((await sandbox.changes()).map(({ path }) => path)).toEqual(["docs/guide.md", "docs/new.md"]);
  });

  test("a child's sandbox applies every policy above it", async () => {
    const sandbox = await world.open(repository, { policy: [{ restrict: "/docs" }, undefined, { readonly: true }] });

    expect(await sandbox.paths()).toEqual(["docs/api/a.md", "docs/guide.md"]);
    expect(await code(sandbox.write("docs/guide.md", "x"))).toBe("READ_ONLY");
  });

  test.each([{ restrict: "/../x" }, { zones: [{ name: "x", path: ".git", mode: "rw" as const }] }])(
    "a policy with the path of %j is refused when the sandbox opens",
    async (policy) => {
      await expect(open(policy)).rejects.toThrow(UserError);
      await expect(open(policy)).rejects.toThrow(/^The sandbox policy of this worker is invalid/);
    },
  );

  test("a child whose folder is a part of its parent's scratch files finds it", async () => {
    const sandbox = await open({ restrict: "/src", zones: [{ name: "scratch", keep: "run", mode: "rw" }] });

    const child = sandbox.restricted({ restrict: "/scratch/plans" });

    expect((await child.list("/")).map(({ path }) => path)).toEqual(["scratch"]);
    expect((await child.list("scratch")).map(({ path }) => path)).toEqual(["scratch/plans"]);
    await child.write("scratch/plans/a.md", "a");
    expect((await child.list("scratch/plans")).map(({ path }) => path)).toEqual(["scratch/plans/a.md"]);
    expect(await sandbox.paths()).toEqual(["scratch/plans/a.md", "src/a.ts"]);
  });
});

const decision = fc.constantFrom("preApproved" as const, "ask" as const, "blocked" as const, undefined);
const approval = fc.option(fc.record({ write: decision, delete: decision }), { nil: undefined });
const folder = fc.constantFrom("a", "a/b", "a/b/c", "d");
const policy: fc.Arbitrary<SandboxPolicy> = fc.record({
  restrict: fc.option(
    folder.map((path) => `/${path}`),
    { nil: undefined },
  ),
  readonly: fc.option(fc.boolean(), { nil: undefined }),
  approval,
  zones: fc.array(
    fc.record({
      name: fc.constantFrom("one", "two"),
      path: folder,
      keep: fc.constantFrom("run" as const, "repository" as const, undefined),
      mode: fc.constantFrom("ro" as const, "rw" as const),
      approval,
    }),
    { maxLength: 3 },
  ),
});

const places = ["", "a", "a/x", "a/b", "a/b/c", "a/b/c/d", "d", "d/e", "z"];

const covers = (outer: SandboxPolicy, path: string) =>
  outer.restrict !== undefined ||
  outer.readonly === true ||
  outer.approval !== undefined ||
  (outer.zones ?? []).some((zone) => `${path}/`.startsWith(`${zone.path}/`));

test("a child's policy can only narrow what its parent's policy covers", () => {
  const rank = ["blocked", "ask", undefined, "preApproved"];

  fc.assert(
    fc.property(fc.array(policy, { maxLength: 2 }), policy, (above, inner) => {
      const parent = createZones(above);
      const child = parent.narrow(inner);
      for (const place of places) {
        const [was, is] = [parent.ruleFor(place), child.ruleFor(place)];
        if (child.canSee(place)) expect(parent.canSee(place)).toBe(true);
        if (child.leadsToVisible(place)) expect(parent.leadsToVisible(place)).toBe(true);
        if (is.mode === "rw") expect(was.mode).toBe("rw");
        if (above.some((outer) => covers(outer, place))) {
          expect(rank.indexOf(is.write)).toBeLessThanOrEqual(rank.indexOf(was.write));
          expect(rank.indexOf(is.delete)).toBeLessThanOrEqual(rank.indexOf(was.delete));
        }
        if (parent.spaceOf(place) === "run") expect(child.spaceOf(place)).toBe("run");
      }
    }),
  );
});

test("pre-approval applies under a policy that does not cover the path, and not under a restricted parent", () => {
  const consent: SandboxPolicy = { approval: { write: "preApproved" } };
  const write = (outer: SandboxPolicy) => createZones(outer).narrow(consent).ruleFor("docs/guide.md").write;

  expect(write({})).toBe("preApproved");
  expect(write({ zones: [{ name: "src", mode: "ro" }] })).toBe("preApproved");
  expect(write({ restrict: "/docs" })).toBeUndefined();
  expect(write({ zones: [{ name: "docs", mode: "rw" }] })).toBeUndefined();
  expect(write({ approval: { write: "ask" } })).toBe("ask");
});

test("a folder leads to visible paths exactly if it is the root or one of them is in it", () => {
  fc.assert(
    fc.property(fc.array(policy, { maxLength: 3 }), (policies) => {
      const zones = createZones(policies);
      const visible = places.filter(zones.canSee);
      for (const place of places) {
        const contains = visible.some((path) => place === path || path.startsWith(`${place}/`));
        expect(zones.leadsToVisible(place)).toBe(place === "" || contains);
      }
      for (const folder of zones.runFolders()) {
        expect([zones.canSee(folder), zones.spaceOf(folder)]).toEqual([true, "run"]);
      }
    }),
  );
});

test("a zone contains its folder and what is below it, by exact name", () => {
  const name = fc.constantFrom("a", "A", "ab", "b", "\u00e9", "e\u0301", "a b", "a.b", "..a");
  const path = fc.array(name, { minLength: 1, maxLength: 4 }).map((names) => names.join("/"));
  const written = path.chain((folder) =>
    fc.constantFrom(folder, `/${folder}`, `${folder}/`, `./${folder}`, folder.replaceAll("/", "/./"), `${folder}//.`),
  );

  fc.assert(
    fc.property(fc.constantFrom("restrict", "zone"), written, path, (kind, folder, at) => {
      const isInside = `${at}/`.startsWith(
        `${folder
          .split("/")
          .filter((part) => !["", "."].includes(part))
          .join("/")}/`,
      );
      const zones = createZones(
        kind === "restrict" ? { restrict: folder } : { zones: [{ name: "z", path: folder, keep: "run", mode: "ro" }] },
      );
      if (kind === "restrict") expect(zones.canSee(at)).toBe(isInside);
      else expect([zones.ruleFor(at).zone, zones.spaceOf(at)]).toEqual(isInside ? ["z", "run"] : ["", "repository"]);
    }),
  );
});

test("no zone leaves the repository or is in git's data", () => {
  for (const path of [
    "..",
    "a/..",
    "a/../b",
    "../a",
    ".. /a",
    ".git",
    ".GIT/hooks",
    "a/\uff0egit",
    "git~1",
    "//a",
    "a\\b",
    "c:/a",
  ]) {
    expect(() => createZones({ restrict: path })).toThrow(
      /^The sandbox policy of this worker is invalid at restrict: /,
    );
    expect(() => createZones({ zones: [{ name: "z", path, mode: "rw" }] })).toThrow(/ invalid at the zone z: /);
    expect(() => createZones({}).narrow({ restrict: path })).toThrow(UserError);
  }
});

test("a read-only policy makes its repository zones read-only, and not those of the run", () => {
  const zones = createZones({
    readonly: true,
    zones: [
      { name: "docs", mode: "rw" },
      { name: "scratch", keep: "run", mode: "rw", approval: { delete: "ask" } },
    ],
  });

  expect(["x", "docs/x", "scratch/x"].map(zones.ruleFor)).toEqual([
    { zone: "", mode: "ro", write: undefined, delete: undefined },
    { zone: "docs", mode: "ro", write: undefined, delete: undefined },
    { zone: "scratch", mode: "rw", write: undefined, delete: "ask" },
  ]);
});

test("a child's zone names a path before its parent's, and each operation has the stricter rule of the two", () => {
  const parent = createZones({
    zones: [{ name: "outer", path: "a", mode: "rw", approval: { write: "ask", delete: "preApproved" } }],
  });
  const child = parent.narrow({
    zones: [{ name: "inner", path: "a/b", mode: "ro", approval: { write: "preApproved", delete: "blocked" } }],
  });

  expect(child.ruleFor("a/b")).toEqual({ zone: "inner", mode: "ro", write: "ask", delete: "blocked" });
  expect(child.ruleFor("a/c")).toEqual({ zone: "outer", mode: "rw", write: "ask", delete: "preApproved" });
  expect(child.narrow(undefined).ruleFor("a/b")).toEqual(child.ruleFor("a/b"));
});

test("a policy between two others neither hides the rule of the first nor loses its own", () => {
  const asks: SandboxPolicy = { approval: { write: "ask" } };
  const consents: SandboxPolicy = { approval: { write: "preApproved" } };

  expect(createZones([asks, {}, consents]).ruleFor("a").write).toBe("ask");
  expect(createZones([{}, asks, consents]).ruleFor("a").write).toBe("ask");
  expect(createZones([{}, {}, consents]).ruleFor("a").write).toBe("preApproved");
});
