import { gzipSync } from "node:zlib";
import { afterAll, describe, expect, test } from "vitest";
import type { ExecResult } from "#executors/executor.ts";
import { createMemoryExecutor } from "#executors/memory/memory-executor.ts";
import { workspaceTree } from "#toolsets/run-command.ts";
import { memoryWorkspace } from "../support/memory-workspace.ts";
import { archive, entry } from "../support/tar-archive.ts";

const executor = createMemoryExecutor();
const shared = await executor.open();
afterAll(() => executor.close());

/** Runs a command in the shell that all of these tests share. Afterwards it still has to respond. */
async function sh(
  script: string,
  files: Record<string, string | Uint8Array> = {},
  timeoutMs = 60_000,
): Promise<ExecResult> {
  const workspace = memoryWorkspace(files);
  return shared.exec(workspaceTree(workspace, workspace), {
    command: ["bash", "-c", script],
    timeoutMs,
    outputBytes: 2_000,
  });
}

async function stillAnswers(): Promise<void> {
  expect((await sh("echo fine")).stdout).toBe("fine\n");
}

describe("archive unpacked in the in-memory shell", () => {
  const zeros = gzipSync(Buffer.alloc(100_000_000));

  test.each([
    ["gunzip bomb.gz; ls -s bomb", zeros],
    ["zcat bomb.gz | wc -c", zeros],
    ["gunzip -c bomb.gz | gunzip -c | wc -c", gzipSync(zeros)],
  ])("an archive unpacked in the in-memory shell does not take effect: %s", async (script, content) => {
    const { stdout, stderr, changes } = await sh(script, { "bomb.gz": content });

    expect(stderr).toContain("exceeds limit");
    expect(stdout.trim()).toMatch(/^0?$/);
    expect(changes.written).toEqual([]);
    await stillAnswers();
  });

  test("an archive unpacked in the in-memory shell is limited in entries and size, regardless of its header", async () => {
    // The limit counts entries, not names, so a hundred names can be repeated.
    const hundred = Buffer.concat(Array.from({ length: 101 }, (_, at) => entry(`m/${at}`, {})));
    const many = gzipSync(archive(...Array.from({ length: 1_000 }, () => hundred)));
    const sparse = archive(entry("sparse", { size: 0o77777777777 }));

    const { stdout, stderr, changes } = await sh("tar xzf many.tgz; tar xf sparse.tar; tar tf sparse.tar; ls", {
      "many.tgz": many,
      "sparse.tar": sparse,
    });

    expect(stdout).toBe("many.tgz\nsparse.tar\n");
    expect(stderr).toMatch(/Too many entries[\s\S]*too large[\s\S]*too large/);
    expect(changes.written).toEqual([]);
    await stillAnswers();
  });

  test("an archive unpacked in the in-memory shell writes nothing to parent folders, to .git, through a link or to a device", async () => {
    const slip = archive(
      entry("../up", { text: "x" }),
      entry("../../etc/passwd", { text: "x" }),
      entry("/etc/passwd", { text: "x" }),
      entry(".git/hooks/pre-commit", { text: "x" }),
      entry("link", { type: "symlink", link: "/etc" }),
      entry("link/shadow", { text: "x" }),
      entry("inner", { type: "symlink", link: "README.md" }),
      entry("hard", { type: "link", link: "/etc/passwd" }),
      entry("device", { type: "device" }),
      entry("pipe", { type: "pipe" }),
      entry("ok.txt", { text: "fine" }),
    );

    const { stdout, changes } = await sh("tar xf slip.tar; ls / /etc /tmp; cat /etc/passwd /etc/shadow ../up", {
      "slip.tar": slip,
      "README.md": "# Sums\n",
    });

    expect(stdout).not.toMatch(/up|shadow|passwd/);
    // Absolute paths become paths of the tree, and files behind a link are written to a folder.
    expect(changes.written.map(({ path }) => path).sort()).toEqual(["etc/passwd", "link/shadow", "ok.txt"]);
    const rejected = Object.fromEntries(changes.rejected.map(({ path, reason }) => [path, reason]));
    expect(rejected).toEqual({ ".git/hooks/pre-commit": "is in .git", inner: "is a link" });
  });
});

describe("expensive patterns in the in-memory shell", () => {
  const letters = "a".repeat(40);

  test("a pattern with catastrophic backtracking is fast in jq, awk, sed, expr and the shell's own patterns", async () => {
    const { exitCode, timedOut, stdout } = await sh(
      [
        "shopt -s extglob",
        `echo '"${letters}!"' | jq 'test("^(a+)+$")'`,
        `echo ${letters}! | awk '/^(a+)+$/ { print "awk" }'`,
        `echo ${letters}! | sed -nE 's/^(a+)+$/sed/p'`,
        `echo ${letters}! | rg '^(a+)+$'`,
        `[[ ${letters}! == +(+(a)) ]] && echo extglob`,
        `case ${letters}! in *(*(a))) echo case;; esac`,
        `expr ${letters}! : '\\(a*\\)*$'`,
        "echo end",
      ].join("\n"),
    );

    expect({ exitCode, timedOut, stdout }).toEqual({ exitCode: 0, timedOut: false, stdout: "false\n0\nend\n" });
  });

  test("a file name pattern with catastrophic backtracking ends at the deadline, with its process", async () => {
    const { exitCode, timedOut } = await sh(`touch ${"a".repeat(60)}; ls ${"*a".repeat(30)}b`, {}, 500);

    expect({ exitCode, timedOut }).toEqual({ exitCode: null, timedOut: true });
    await stillAnswers();
  });

  test.each([
    ["arithmetic nested 20,000 deep", `echo $((${"(".repeat(20_000)}1${")".repeat(20_000)}))`],
    ["20,000 open subshells", "(".repeat(20_000)],
    ["here-documents in each other", `${"$(cat <<A\n".repeat(200)}x`],
    ["a number a gigabyte wide", "printf '%0999999999d' 1 | wc -c"],
    ["a sequence of a thousand million", "seq 1 999999999 | tail -1"],
  ])("%s is refused", async (_, script) => {
    const { exitCode, stdout } = await sh(script);

    expect(exitCode === 0 && stdout.trim() !== "0").toBe(false);
    await stillAnswers();
  });

  test("there is no interpreter for JavaScript, Python or SQL", async () => {
    const { stdout } = await sh(
      [
        "js-exec -c 'new Uint8Array(2 ** 31)' || echo 1",
        'node -e \'/(a+)+$/.test("a".repeat(40) + "!")\' || echo 2',
        "python3 -c 1 || echo 3",
        "sqlite3 :memory: 'select 1' || echo 4",
      ].join("\n"),
    );

    expect(stdout).toBe("1\n2\n3\n4\n");
  });
});

describe("changes from the in-memory shell", () => {
  test("include no name that another file system would understand differently", async () => {
    const { changes } = await sh(
      [
        "echo x > ../up; echo x > 'cafe\u0301'; echo x > 'caf\u00e9'; mkdir -p .GIT git~1",
        "echo x > .GIT/c; echo x > git~1/c; echo x > .GITMODULES; echo x > $'nl\\nx'; echo x > $'a\\0b'",
        `echo x > ${"n".repeat(300)}; mkdir -p ${Array(25).fill("d".repeat(200)).join("/")}`,
        `echo x > ${Array(25).fill("d".repeat(200)).join("/")}/deep`,
      ].join("\n"),
    );

    expect(changes.written.map(({ path }) => path.normalize("NFC"))).toEqual(["caf\u00e9"]);
    expect(changes.rejected.map(({ reason }) => reason).sort()).toEqual(
      expect.arrayContaining([
        "has a name that is too long",
        "has a path that is too long",
        "has control characters in its name",
        "has the same name as another file, in another spelling",
        "is in .git",
        "would change the submodules",
      ]),
    );
  });
});
