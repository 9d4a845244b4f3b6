import {
  appendFileSync,
  chmodSync,
  existsSync,
  mkdirSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { expect, test } from "vitest";
import { applyChanges } from "#sandbox/checkout/apply-changes.ts";
import { BaseRecord } from "#sandbox/checkout/base-record.ts";
import { commitOnBranch, writePatch } from "#sandbox/checkout/export-changes.ts";
import { type CheckoutChange, openCheckout } from "#sandbox/checkout/open-checkout.ts";
import { checkoutWorld } from "../../support/checkout-world.ts";

const bytes = (text: string) => Buffer.from(text);

function change(path: string, before: string | undefined, after: string | undefined): CheckoutChange {
  const version = (text: string | undefined) =>
    text === undefined ? undefined : { content: bytes(text), executable: false };
  return { path, before: version(before), after: version(after), isStale: false };
}

test("the tree contains tracked, changed and new files, but no ignored files and no .git", async () => {
  const world = checkoutWorld({
    ".gitignore": "node_modules\n*.log\n",
    "a.txt": "one\n",
    "b.txt": "b\n",
    "old.txt": "",
  });
  world.write("a.txt", "two\n");
  world.write("new.txt", "new\n");
  world.write("node_modules/x/index.js", "");
  world.write("debug.log", "");
  rmSync(world.at("old.txt"));

  const { tree, branch, head, root } = await openCheckout(world.at(".git/..").replace("/.git/..", ""));

  expect(await tree.paths()).toEqual([".gitignore", "a.txt", "b.txt", "new.txt"]);
  expect(String(await tree.readBytes("a.txt"))).toBe("two\n");
  expect({ branch, head, root }).toEqual({
    branch: "main",
    head: world.git("rev-parse", "HEAD").trim(),
    root: world.root,
  });
  expect(await tree.changes()).toEqual([]);
  world.git("tag", "main");
  expect((await openCheckout(world.root)).branch).toBe("heads/main");
  world.git("checkout", "--detach");
  expect((await openCheckout(world.root)).branch).toBe(head?.slice(0, 7));
});

test.each([true, false])("files have the time of their last change on disk (isFolder: %s)", async (isFolder) => {
  const world = checkoutWorld({ "docs/a.txt": "a\n" });
  utimesSync(world.at("docs/a.txt"), new Date("2024-05-06T07:08:09Z"), new Date("2024-05-06T07:08:09Z"));

  const { tree } = await openCheckout(world.root, { isFolder });

  expect((await tree.stat("docs/a.txt")).modified.toISOString()).toBe("2024-05-06T07:08:09.000Z");
  expect((await tree.stat("docs")).modified.getFullYear()).toBeGreaterThan(2023);
});

test("a record whose last line was cut off keeps what is recorded after it", () => {
  const world = checkoutWorld({ "a.txt": "a\n" });
  const record = world.at("run.base");
  const file = { kind: "file" as const, version: { content: bytes("a\n"), executable: false } };
  new BaseRecord(record).add("a.txt", file);
  // The process was killed while it wrote the next line.
  appendFileSync(record, '{"path":"b.txt","ki');

  new BaseRecord(record).add("c.txt", { kind: "absent" });

  const { files } = new BaseRecord(record);
  expect([...files.keys()]).toEqual(["a.txt", "c.txt"]);
  expect(files.get("a.txt")).toEqual(file);
});

test("a worker's changes do not touch the disk", async () => {
  const world = checkoutWorld({ "a.txt": "a\n", "b.txt": "b\n" });
  const { tree, changes: changed } = await openCheckout(world.root);

  await tree.write("a.txt", "other\n");
  await tree.move("b.txt", "c.txt");

  expect(world.status()).toBe("");
  expect(
    changed().map(({ path, before, after }) => [
      path,
      before && String(before.content),
      after && String(after.content),
    ]),
  ).toEqual([
    ["a.txt", "a\n", "other\n"],
    ["b.txt", "b\n", undefined],
    ["c.txt", undefined, "b\n"],
  ]);
});

test("links out of the checkout are listed but never followed, even when they replace a folder", async () => {
  const world = checkoutWorld({ "folder/secret.txt": "mine\n", "a.txt": "a\n" });
  writeFileSync(join(world.parent, "secret.txt"), "outside\n");
  symlinkSync("../secret.txt", world.at("link.txt"));
  rmSync(world.at("folder"), { recursive: true });
  symlinkSync("..", world.at("folder"));

  const { tree } = await openCheckout(world.root);

  await expect(tree.readBytes("link.txt")).rejects.toMatchObject({ code: "INVALID_PATH" });
  await expect(tree.readBytes("folder/secret.txt")).rejects.toMatchObject({ code: "INVALID_PATH" });
  expect(await tree.paths()).toEqual(["a.txt"]);
});

test("a file keeps the content of its first read, and one that changed before is not overwritten", async () => {
  const world = checkoutWorld({ "seen.txt": "one\n", "unseen.txt": "one\n" });
  const { tree, changes: changed } = await openCheckout(world.root);
  await tree.readBytes("seen.txt");
  world.write("seen.txt", "two, and longer\n");
  world.write("unseen.txt", "two, and longer\n");

  await tree.remove("unseen.txt");

  expect(String(await tree.readBytes("seen.txt"))).toBe("one\n");
  expect(applyChanges(world.root, changed())).toMatchObject({
    applied: [],
    refused: [{ path: "unseen.txt", reason: "was changed on disk before the worker read it" }],
  });
});

test("reading a file that was deleted from disk fails with an explanation", async () => {
  const world = checkoutWorld({ "a.txt": "a\n" });
  const { tree } = await openCheckout(world.root);
  rmSync(world.at("a.txt"));

  await expect(tree.readBytes("a.txt")).rejects.toMatchObject({ code: "FILE_NOT_FOUND" });
});

test("the git tools see history and branches, and a worker in a subfolder only its part", async () => {
  const world = checkoutWorld({ "web/a.txt": "a\n", "b.txt": "b\n" });
  world.git("branch", "other");
  const { tree } = await openCheckout(world.at("web"));
  const narrow = tree.restricted({ restrict: "/web" });

  await tree.write("b.txt", "more\n");
  await tree.stage(["b.txt"]);

  expect((await tree.log({ limit: 5 })).commits.map(({ message, author }) => [message.trim(), author])).toEqual([
    ["The first", "Ada"],
  ]);
  expect((await tree.branches()).map(({ name }) => name)).toEqual(["main", "other"]);
  expect(await tree.staged()).toEqual({ staged: ["b.txt"], unstaged: [] });
  expect(await narrow.paths()).toEqual(["web/a.txt"]);
  expect((await tree.log({ limit: 5, path: "web" })).commits.length).toBe(1);
  expect((await tree.log({ limit: 5, skip: 1 })).commits.length).toBe(0);
  expect((await tree.log({ limit: 5, from: "other", exclude: "main" })).commits.length).toBe(0);
  await expect(tree.log({ limit: 5, from: "--all" })).rejects.toThrow();
});

test("a repository without commits opens, and a folder outside a repository is an error", async () => {
  const world = checkoutWorld({ "a.txt": "a\n" });
  world.git("update-ref", "-d", "HEAD");

  expect(await openCheckout(world.root)).toMatchObject({ head: undefined, fileCount: 1, branch: "main" });
  await expect(openCheckout(world.parent)).rejects.toThrow(`${world.parent} is not in a git repository`);
  await expect(openCheckout(world.at(".git"))).rejects.toThrow("is in a git repository, but not in its working tree");
});

test("nested repositories and names that git cannot list are unchanged", async () => {
  const world = checkoutWorld({ "a.txt": "a\n" });
  mkdirSync(world.at("inner"));
  world.git("init", "-q", "inner");
  world.write("inner/b.txt", "b\n");

  expect(await (await openCheckout(world.root)).tree.paths()).toEqual(["a.txt"]);
});

test("git apply reproduces a worker's changes from the patch: text, bytes, modes, links and unusual names", async () => {
  const image = Buffer.from([0, 1, 2, 250, 251, 0, 9]);
  const world = checkoutWorld({
    "a b.txt": "one\ntwo",
    'quote"d.txt': "x\n",
    "ünï.txt": "x\n",
    "gone.bin": image,
    "grown.bin": image,
    "run.sh": "echo\n",
  });
  symlinkSync("run.sh", world.at("link"));
  world.git("add", "-A");
  world.git("commit", "-q", "-m", "A link");
  const { tree, changes: changed } = await openCheckout(world.root);

  await tree.write("a b.txt", "one\nthree\n");
  await tree.write('quote"d.txt', "y");
  await tree.write("ünï.txt", "ÿ\n");
  await tree.remove("gone.bin");
  await tree.write("grown.bin", Buffer.concat([image, Buffer.alloc(3_000, 7), image]));
  await tree.write("deep/new.bin", image);
  await tree.write("run.sh", "echo\n", { executable: true });
  await tree.remove("link");
  const patch = writePatch(changed());
  writeFileSync(join(world.parent, "it.patch"), patch);
  world.git("apply", join(world.parent, "it.patch"));

  const now = await openCheckout(world.root);
  expect(await now.tree.paths()).toEqual(await tree.paths());
  for (const path of await tree.paths()) expect(await now.tree.readBytes(path)).toEqual(await tree.readBytes(path));
  expect(world.mode("run.sh")).toBe(0o755);
  expect(world.exists("link")).toBe(false);
});

test("a patch reproduces any bytes", () => {
  const world = checkoutWorld({ "a.bin": Buffer.from([0]) });
  const content = fc.uint8Array({ maxLength: 300 }).map((array) => Buffer.from([0, ...array]));

  fc.assert(
    fc.property(content, content, (before, after) => {
      writeFileSync(world.at("a.bin"), before);
      const versions = { before: { content: before, executable: false }, after: { content: after, executable: false } };
      writeFileSync(join(world.parent, "it.patch"), writePatch([{ path: "a.bin", ...versions }]));
      if (!before.equals(after)) world.git("apply", join(world.parent, "it.patch"));
      expect(Buffer.from(world.read("a.bin"))).toEqual(Buffer.from(after.toString("utf8")));
    }),
    { numRuns: 8 },
  );
});

test("applied changes are written with their modes, and empty folders are removed", async () => {
  const world = checkoutWorld({
    "run.sh": "old\n",
    "deep/er/gone.txt": "x\n",
    file: "a file\n",
    "was/folder.txt": "x\n",
  });
  chmodSync(world.at("run.sh"), 0o744);
  const { tree, changes: changed } = await openCheckout(world.root);
  await tree.write("run.sh", "new\n");
  await tree.write("new/tool.sh", "#!/bin/sh\n", { executable: true });
  await tree.remove("deep/er/gone.txt");
  await tree.remove("file");
  await tree.write("file/inside.txt", "now a folder\n");
  await tree.remove("was/folder.txt");
  await tree.write("was", "now a file\n");

  const { applied, refused, failed } = applyChanges(world.root, changed());

  expect({ refused, failed }).toEqual({ refused: [], failed: [] });
  expect(applied.map(({ path, outcome: done }) => `${path} ${done}`)).toEqual([
    "deep/er/gone.txt deleted",
    "file deleted",
    "file/inside.txt written",
    "new/tool.sh written",
    "run.sh written",
    "was written",
    "was/folder.txt deleted",
  ]);
  expect([world.read("run.sh"), world.mode("run.sh")]).toEqual(["new\n", 0o744]);
  expect(world.mode("new/tool.sh") & 0o100).toBe(0o100);
  expect(world.read("file/inside.txt")).toBe("now a folder\n");
  expect(world.read("was")).toBe("now a file\n");
  expect(world.exists("deep")).toBe(false);
  expect(applyChanges(world.root, changed()).applied.every(({ outcome }) => outcome === "unchanged")).toBe(true);
});

test("changes made on disk in the meantime are merged", async () => {
  const world = checkoutWorld({ "a.txt": "1\n2\n3\n4\n5\n" });
  const { tree, changes: changed } = await openCheckout(world.root);
  await tree.readBytes("a.txt");
  await tree.write("a.txt", "1\n2\n3\n4\nfive\n");
  world.write("a.txt", "one\n2\n3\n4\n5\n", { executable: true });

  const { applied } = applyChanges(world.root, changed());

  expect(applied).toEqual([{ path: "a.txt", outcome: "merged" }]);
  expect(world.read("a.txt")).toBe("one\n2\n3\n4\nfive\n");
});

test.each<[string, CheckoutChange, (world: ReturnType<typeof checkoutWorld>) => void, string]>([
  [
    "changed in the same lines",
    change("a.txt", "a\n", "worker\n"),
    (world) => world.write("a.txt", "person\n"),
    "in the same lines",
  ],
  [
    "deleted on disk",
    change("a.txt", "a\n", "worker\n"),
    (world) => rmSync(world.at("a.txt")),
    "was deleted on disk in the meantime",
  ],
  [
    "deleted by the worker",
    change("a.txt", "a\n", undefined),
    (world) => world.write("a.txt", "b\n"),
    "was changed on disk in the meantime",
  ],
  [
    "an ignored file on disk",
    change("env", undefined, "worker\n"),
    (world) => world.write("env", "KEY\n"),
    "the worker did not see it",
  ],
  [
    "replaced by a link",
    change("a.txt", "a\n", "worker\n"),
    (world) => {
      rmSync(world.at("a.txt"));
      symlinkSync("../outside.txt", world.at("a.txt"));
    },
    "was changed on disk in the meantime",
  ],
  [
    "behind a link",
    change("in/a.txt", undefined, "x\n"),
    (world) => symlinkSync("..", world.at("in")),
    "is behind the symbolic link in on disk",
  ],
  [
    "replaced by a folder",
    change("in", undefined, "x\n"),
    (world) => world.write("in/a.txt", ""),
    "is a folder on disk",
  ],
  ["below a file", change("a.txt/b.txt", undefined, "x\n"), () => {}, "a.txt is a file on disk"],
  [
    "git's own data",
    change(".git/hooks/pre-commit", undefined, "x\n"),
    () => {},
    "is not a valid path in a working tree",
  ],
  [
    "git's own data in another spelling",
    change("sub/.GIT/config", undefined, "x\n"),
    () => {},
    "is not a valid path in a working tree",
  ],
  ["above the root", change("../outside.txt", undefined, "x\n"), () => {}, "is not a valid path in a working tree"],
  ["absolute", change("/etc/motd", undefined, "x\n"), () => {}, "is not a valid path in a working tree"],
])("nothing is applied when one path is %s", (_, bad, prepare, reason) => {
  const world = checkoutWorld({ "a.txt": "a\n" });
  prepare(world);
  writeFileSync(join(world.parent, "outside.txt"), "outside\n");
  const before = world.status();

  const result = applyChanges(world.root, [change("fine.txt", undefined, "fine\n"), bad]);

  expect(result).toMatchObject({ applied: [], failed: [], refused: [{ path: bad.path }] });
  expect(result.refused[0]?.reason).toContain(reason);
  expect(world.status()).toBe(before);
});

test("a path that cannot be written is reported, and the others are written", () => {
  const world = checkoutWorld({ "a.txt": "a\n" });
  const long = Array.from({ length: 20 }, () => "y".repeat(203)).join("/");

  const result = applyChanges(world.root, [change("b.txt", undefined, "b\n"), change(long, undefined, "x\n")]);

  expect(result).toMatchObject({ applied: [{ path: "b.txt" }], refused: [], failed: [{ path: long }] });
  expect(result.failed[0]?.reason).toContain("ENAMETOOLONG");
});

test("committing to a branch leaves the working tree, the index and the current branch unchanged", async () => {
  const world = checkoutWorld({
    "a.txt": "a\n",
    "mine.txt": "m\n",
    "gone.txt": "x\n",
    ".gitattributes": "*.txt text eol=crlf\n",
  });
  world.write("mine.txt", "not committed\r\n");
  world.write("other.txt", "new, and not the worker's\n");
  const { tree, changes: changed, head, root } = await openCheckout(world.root);
  await tree.write("a.txt", "worker\r\n");
  await tree.write("mine.txt", "not committed\r\nworker\r\n");
  await tree.remove("gone.txt");
  const [statusBefore, headBefore] = [world.status(), world.git("rev-parse", "HEAD")];

  const { commit, withUncommitted: mixed } = await commitOnBranch(
    { root, head },
    { branch: "golem/1", changes: changed(), message: "fixer: it\n" },
  );

  expect([world.status(), world.git("rev-parse", "HEAD")]).toEqual([statusBefore, headBefore]);
  expect(mixed).toEqual(["mine.txt"]);
  expect(world.git("show", "--name-status", "--format=%an: %s", commit)).toBe(
    "Ada: fixer: it\n\nM\ta.txt\nD\tgone.txt\nM\tmine.txt\n",
  );
  expect(world.git("cat-file", "blob", `${commit}:a.txt`)).toBe("worker\n");
  await expect(
    commitOnBranch({ root, head }, { branch: "golem/1", changes: changed(), message: "again" }),
  ).rejects.toThrow("git update-ref");
  world.git("config", "user.name", "");
  await expect(
    commitOnBranch({ root, head }, { branch: "golem/2", changes: changed(), message: "again" }),
  ).rejects.toThrow("git does not know your name. Set user.name and user.email with git config.");
});

test("the settings of a checkout start no programs", async () => {
  const world = checkoutWorld({ "a.txt": "a\n", ".gitattributes": "*.txt filter=a=b\n" });
  const program = world.at("../program");
  writeFileSync(program, `#!/bin/sh\necho "$0" >> ${world.at("../started")}\ncat\n`, { mode: 0o755 });
  const signed = world.git("cat-file", "commit", "HEAD").replace("\n\n", "\ngpgsig x\n\n");
  world.write("../signed", signed);
  world.git("reset", "-q", "--soft", world.git("hash-object", "-t", "commit", "-w", "../signed").trim());
  mkdirSync(world.at(".git/hooks"), { recursive: true });
  for (const hook of ["post-index-change", "reference-transaction"])
    symlinkSync(program, world.at(`.git/hooks/${hook}`));
  world.git("config", "core.fsmonitor", program);
  world.git("config", "gpg.program", program);
  world.git("config", "log.showSignature", "true");
  world.git("config", "filter.a=b.clean", program);
  world.git("config", "filter.a=b.required", "true");
  world.write("a.txt", "changed\n");

  const checkout = await openCheckout(world.root);
  await checkout.tree.log({ limit: 1 });
  await checkout.tree.blame({ path: "a.txt", start: 1, end: 1 });
  await commitOnBranch(checkout, { branch: "b", changes: [change("b.md", undefined, "b\n")], message: "b" });

  expect(existsSync(world.at("../started"))).toBe(false);
});

test("an object that a partial clone lacks is not fetched, for which the checkout's settings may name programs", async () => {
  const world = checkoutWorld({ "a.txt": "a\n" });
  world.write("a.txt", "b\n");
  world.git("commit", "-qam", "Write b");
  const missing = world.git("rev-parse", "HEAD~1:a.txt").trim();
  rmSync(world.at(`.git/objects/${missing.slice(0, 2)}/${missing.slice(2)}`));
  const program = world.at("../program");
  writeFileSync(program, `#!/bin/sh\necho "$0" >> ${world.at("../started")}\nexit 1\n`, { mode: 0o755 });
  world.git("config", "core.repositoryFormatVersion", "1");
  world.git("config", "extensions.partialClone", "origin");
  world.git("config", "remote.origin.promisor", "true");

  for (const [url, name] of [
    ["ssh://host/repository", "core.sshCommand"],
    [world.at("../elsewhere"), "remote.origin.uploadPack"],
    ["git://host/repository", "core.gitProxy"],
  ]) {
    world.git("config", "remote.origin.url", url ?? "");
    world.git("config", name ?? "", program);
    const { tree } = await openCheckout(world.root);
    await expect(tree.blame({ path: "a.txt", start: 1, end: 1 })).rejects.toThrow(
      "git blame needs an object that this partial clone lacks. Run it yourself once, and git fetches the object.",
    );
  }

  expect(existsSync(world.at("../started"))).toBe(false);
});
