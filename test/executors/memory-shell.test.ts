import { createServer } from "node:net";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { ExecRequest, ExecResult, ExecSession, Executor } from "#executors/executor.ts";
import { createMemoryExecutor } from "#executors/memory/memory-executor.ts";
import { workspaceTree } from "#toolsets/run-command.ts";
import { memoryWorkspace } from "../support/memory-workspace.ts";

let executor: Executor;
let shared: ExecSession;
const files = {
  "README.md": "# Sums\n",
  "src/add.ts": "export const add = (a, b) => a - b;\n",
  "src/deep/mul.ts": "export const mul = 1;\n// needle here\n",
};

beforeAll(async () => {
  executor = createMemoryExecutor();
  shared = await executor.open();
});
afterAll(() => executor.close());

interface Place {
  session?: ExecSession;
  workspace?: ReturnType<typeof memoryWorkspace>;
}

function sh(script: string, request: Partial<ExecRequest> = {}, place: Place = {}): Promise<ExecResult> {
  const workspace = place.workspace ?? memoryWorkspace(files);
  return (place.session ?? shared).exec(workspaceTree(workspace, workspace), {
    command: ["bash", "-c", script],
    timeoutMs: 60_000,
    outputBytes: 20_000,
    ...request,
  });
}

describe("command in the in-memory shell", () => {
  test("a command sees the tree and returns stdout, stderr and the exit code", async () => {
    const result = await sh("cat src/add.ts; echo oops >&2; exit 3");

    expect(result).toMatchObject({ tier: "memory", exitCode: 3, stdout: files["src/add.ts"], stderr: "oops\n" });
    expect(result.changes).toEqual({ written: [], deleted: [], rejected: [], ignoredFiles: 0 });
  });

  test("the time to copy a large tree does not count as that of the first command", async () => {
    const many = Object.fromEntries(Array.from({ length: 150 }, (_, n) => [`many/${n}.txt`, `${n}\n`]));
    const session = await executor.open();
    const workspace = memoryWorkspace(many);

    const first = await sh("cat many/* | wc -l; echo changed > many/7.txt", {}, { session, workspace });
    const second = await sh("cat many/8.txt many/7.txt", {}, { session, workspace });

    expect(first).toMatchObject({ exitCode: 0, stdout: "150\n" });
    expect(first.changes.written.map(({ path }) => path)).toEqual(["many/7.txt"]);
    // The change was not applied to the workspace.
    expect(second).toMatchObject({ exitCode: 0, stdout: "8\n7\n" });
    await session.close();
  });

  test("a command reads only the files that it needs, however many the tree has", async () => {
    const workspace = memoryWorkspace({
      ...Object.fromEntries(Array.from({ length: 3_000 }, (_, n) => [`many/${n}.txt`, `${n}\n`])),
      "run.sh": "echo base\n",
    });
    await workspace.write("run.sh", "echo changed\n");
    const read: string[] = [];
    const tree = workspaceTree(workspace, workspace);
    const counting = (one: "readBytes" | "readBase") => async (path: string) => {
      read.push(path);
      return (await tree[one](path)) as Uint8Array;
    };
    const counted = { ...tree, readBytes: counting("readBytes"), readBase: counting("readBase") };
    const session = await executor.open();
    const run = (script: string) =>
      session.exec(counted, { command: ["bash", "-c", script], timeoutMs: 60_000, outputBytes: 20_000 });

    const first = await run("bash run.sh; find many -name '17*.txt' -size 1 | wc -l; echo more > new.txt");
    const ofTree = () => read.filter((path) => path.startsWith("many/"));
    const readFirst = ofTree();
    const second = await run("cat many/1234.txt");
    const readSecond = ofTree();
    const third = await run("cat many/*.txt | wc -l; grep -r 2999 many");

    expect(first).toMatchObject({ exitCode: 0, stdout: "changed\n111\n" });
    expect(first.changes.written.map(({ path }) => path)).toEqual(["new.txt"]);
    expect(readFirst).toEqual([]);
    expect(second.stdout).toBe("1234\n");
    expect(readSecond).toEqual(["many/1234.txt"]);
    expect(third.stdout).toBe("3000\nmany/2999.txt:2999\n");
    // Each content is read once.
    expect(ofTree()).toHaveLength(3_000);
    await session.close();
  });

  test.each([
    "mv src source; cp -r source copy; rm source/deep/mul.ts",
    "chmod +x README.md src/add.ts; cp -p README.md executable",
    "echo more >> README.md; sed -i s/needle/pin/ src/deep/mul.ts",
    "cp src/add.ts /tmp/add; cp /tmp/add src/add.ts; touch README.md; cat README.md",
    "echo '# Tums' > README.md; echo '# Sums' > src/add.ts",
    "ln src/add.ts hard; echo 1 >> hard; ln -s src link; cat link/add.ts; echo 2 > link/new.ts",
    "ln -s README.md link; echo 1 > other; wc -c link src/*.ts; stat -c '%n %s %a' README.md src/add.ts",
    "rm -r src; mkdir src; echo 1 > src/add.ts; ls -R; find . -type f -size -1k | sort",
    "rm README.md; mkdir README.md; echo 1 > README.md/file; cat README.md/file",
    "mv README.md src/add.ts; cat src/add.ts; mv src/deep/mul.ts src/deep/../mul.ts; cat src/mul.ts",
    "tar cf /tmp/all.tar .; mkdir out; tar xf /tmp/all.tar -C out; cmp README.md out/README.md; diff -r src out/src",
  ])("a command has the same result for files of the base and for files that the run wrote: %s", async (script) => {
    const written = memoryWorkspace();
    for (const [path, content] of Object.entries(files)) await written.write(path, content);
    const [base, other] = [await executor.open(), await executor.open()];
    const normalized = ({ durationMs: _, ...result }: ExecResult) => result;

    const results = [
      await sh(script, {}, { session: base }),
      await sh(script, {}, { session: other, workspace: written }),
    ];
    const later = [
      await sh("cat README.md; find . | sort", {}, { session: base }),
      await sh("cat README.md; find . | sort", {}, { session: other, workspace: written }),
    ];

    expect(normalized(results[0] as ExecResult)).toEqual(normalized(results[1] as ExecResult));
    expect(normalized(later[0] as ExecResult)).toEqual(normalized(later[1] as ExecResult));
    await base.close();
    await other.close();
  });

  test("a command in the in-memory shell streams its output after each statement", async () => {
    const parts: string[] = [];
    const stop = new AbortController();
    const running = sh("echo first; for i in 1 2; do echo $i; done; echo oops >&2; sleep 3600", {
      timeoutMs: 3_600_000,
      signal: stop.signal,
      onOutput: (stream, chunk) => {
        parts.push(`${stream} ${chunk}`);
        if (stream === "stderr") stop.abort();
      },
    });

    // The rest of the command would take an hour.
    await expect(running).rejects.toMatchObject({ code: "INTERRUPTED" });

    expect(parts).toEqual(["stdout first\n", "stdout 1\n", "stdout 2\n", "stderr oops\n"]);
  });

  test("a command in the in-memory shell keeps the output of a command that is killed at its deadline", async () => {
    const result = await sh("echo first; sleep 60", { timeoutMs: 500 });

    expect(result).toMatchObject({ timedOut: true, exitCode: null, stdout: "first\n" });
  });

  test.each([
    ["X=1; cd src; echo $X $(basename $PWD)", "1 src\n"],
    // biome-ignore lint/suspicious/noTemplateCurlyInString: a script of bash
    ["false | true; echo ${PIPESTATUS[0]}", "1\n"],
    ["false; echo $?; ! true; echo $?", "1\n1\n"],
    ["for i in 1 2 3; do [ $i = 2 ] && continue; echo $i; [ $i = 3 ] && break; done; echo end", "1\n3\nend\n"],
    ["while true; do echo once; break; done", "once\n"],
    ["f() { echo in; return 3; echo never; }; f; echo $?", "in\n3\n"],
    ["set -e; echo a; if false; then echo no; else echo b; fi; false; echo never", "a\nb\n"],
    ["exec > out.txt; echo hidden; cat out.txt >&2", ""],
    ["{ echo a; echo b >&2; } 2>&1 | sort -r", "b\na\n"],
    ['while read -r line; do echo "<$line>"; done < README.md', "<# Sums>\n"],
    ["cat <<X | tr a b\nna\nX\necho é | cat", "nb\né\n"],
    ["case x in x) echo match;; esac; echo $(echo inner)", "match\ninner\n"],
    ["trap 'echo bye' EXIT 2>/dev/null; echo 1 && echo 2 || echo 3; (exit 4); echo $?", "1\n2\n4\n"],
  ])("%s prints the same as in one piece", async (script, stdout) => {
    expect((await sh(script)).stdout).toBe(stdout);
  });

  test("a command in the in-memory shell returns the files it wrote, moved and deleted", async () => {
    const { changes } = await sh("sed -i 's/-/+/' src/add.ts; mv README.md READ.md; rm -r src/deep; mkdir empty");

    const written = changes.written.map(({ path, content }) => [path, Buffer.from(content).toString()]);
    expect(Object.fromEntries(written)).toEqual({
      "READ.md": "# Sums\n",
      "src/add.ts": "export const add = (a, b) => a + b;\n",
    });
    expect(changes.deleted.sort()).toEqual(["README.md", "src/deep/mul.ts"]);
  });

  test("a command sees what a tool has written since, and not the discarded changes of another command", async () => {
    const session = await executor.open();
    const workspace = memoryWorkspace(files);
    await sh("echo lost > README.md; echo lost > new.txt; rm src/add.ts", {}, { session, workspace });
    await workspace.write("src/added.ts", "added\n");

    const { stdout } = await sh("cat README.md src/added.ts src/add.ts; ls", {}, { session, workspace });

    expect(stdout).toBe(`# Sums\nadded\n${files["src/add.ts"]}README.md\nsrc\n`);
    await session.close();
  });

  test("a command in the in-memory shell receives its arguments and standard input unchanged", async () => {
    const args = ["a b", "$(id)", "it's", "-n", "new\nline"];

    const { stdout } = await sh('for x in "$@"; do echo "[$x]"; done; cat', {
      command: ["bash", "-c", 'for x in "$@"; do echo "[$x]"; done; cat', "bash", ...args],
      stdin: "in\n",
    });

    expect(stdout).toBe("[a b]\n[$(id)]\n[it's]\n[-n]\n[new\nline]\nin\n");
  });

  test("a command in the in-memory shell runs in a folder of the tree", async () => {
    expect((await sh("pwd; ls", { cwd: "src" })).stdout).toBe("/workspace/src\nadd.ts\ndeep\n");
  });

  test("a command in the in-memory shell keeps the beginning and the end of a long output", async () => {
    const { stdout, truncated } = await sh("for i in {1..300}; do echo line $i; done", { outputBytes: 200 });

    expect(truncated).toBe(true);
    expect(stdout).toMatch(/^line 1\nline 2\n[\s\S]*bytes left out …\n[\s\S]*line 300\n$/);
  });

  test.each(["npm test", "python3 -c 1", "curl https://example.com"])(
    "a command in the in-memory shell says which tool to use instead of %j",
    async (command) => {
      const { exitCode, stderr } = await sh(command);

      expect(exitCode).toBe(127);
      expect(stderr).toMatch(/not in the in-memory shell\. Call /);
    },
  );
});

describe("search in the in-memory shell", () => {
  test.each([
    ["rg needle", "src/deep/mul.ts:// needle here\n"],
    ["rg -n needle src", "src/deep/mul.ts:2:// needle here\n"],
    ["rg -l -t ts 'export const'", "src/add.ts\nsrc/deep/mul.ts\n"],
    ["rg --files -g '!*.md'", "src/add.ts\nsrc/deep/mul.ts\n"],
    ["grep -rn needle .", "./src/deep/mul.ts:2:// needle here\n"],
    ["grep -rl 'add\\|mul' src", "src/add.ts\nsrc/deep/mul.ts\n"],
    ["grep -rho 'export [a-z]*' src", "export const\nexport const\n"],
    ["grep -r --include='*.md' -i sums .", "./README.md:# Sums\n"],
    ["grep -rc needle src", "src/add.ts:0\nsrc/deep/mul.ts:1\n"],
    ["rg -c needle src", "src/deep/mul.ts:1\n"],
    ["grep -rwB1 'needle' src", "src/deep/mul.ts-export const mul = 1;\nsrc/deep/mul.ts:// needle here\n"],
    ["cat src/deep/mul.ts | grep needle", "// needle here\n"],
    ["cat src/deep/mul.ts | rg needle", "// needle here\n"],
  ])("%s", async (command, expected) => {
    expect(await sh(command)).toMatchObject({ stdout: expected, exitCode: 0 });
  });

  test("finding nothing is exit code 1, and a lookaround is refused with an explanation", async () => {
    expect(await sh("rg nothing-like-it")).toMatchObject({ stdout: "", exitCode: 1 });
    expect((await sh("rg 'a(?=b)'")).stderr).toContain("look-around and back-references are not available");
  });
});

describe("git in the in-memory shell", () => {
  const log = [
    {
      commit: "b".repeat(40),
      message: "Add sums\n\nAll of them.",
      author: "Ada",
      email: "ada@example.com",
      date: new Date(0),
      parents: [],
    },
  ];

  test("status and diff include the run's changes and the script's own", async () => {
    const session = await executor.open();
    const workspace = memoryWorkspace(files);
    await workspace.write("src/new.ts", "new\n");

    const { stdout } = await sh(
      "rm README.md; git status -s; git diff --stat; git diff src/new.ts",
      {},
      { session, workspace },
    );

    expect(stdout).toContain(" D README.md\n?? src/new.ts\n");
    expect(stdout).toContain(" src/new.ts | +1 -0\n");
    expect(stdout).toContain("--- /dev/null\n+++ b/src/new.ts\n@@ -0,0 +1,1 @@\n+new\n");
    await session.close();
  });

  test("log and show read the base commit", async () => {
    const workspace = memoryWorkspace(files, { log });
    await workspace.write("README.md", "changed\n");

    const { stdout } = await sh(
      "git log --oneline -n 3; git show HEAD:README.md; git rev-parse --abbrev-ref HEAD",
      {},
      { workspace },
    );

    expect(stdout).toBe("bbbbbbb Add sums\n# Sums\nmain\n");
  });

  test("git diff with another revision says that it compares with HEAD", async () => {
    const { stderr, stdout } = await sh("git diff HEAD src/add.ts; git diff HEAD~1; git diff main..topic");

    expect(stdout).toBe("");
    expect(stderr.match(/"(HEAD~1|main\.\.topic)" is no file or folder\. diff compares with HEAD/g)).toHaveLength(2);
  });

  test.each(["commit -m x", "push origin main", "checkout main", "config core.fsmonitor x"])(
    "git %s says what to do instead",
    async (command) => {
      const { exitCode, stderr } = await sh(`git ${command}`);

      expect(exitCode).toBe(1);
      expect(stderr).toMatch(/is not available here\. \w+/);
    },
  );
});

describe("in-memory shell", () => {
  test("the in-memory shell cannot read files of the machine, by name, by link or through parent folders", async () => {
    const { stdout, changes } = await sh(
      "cat /etc/passwd ../../../../etc/passwd /proc/self/environ /proc/1/environ; ln -s /etc/passwd leak; cat leak; ls /root /home /work",
    );

    expect(stdout).toBe("");
    expect(changes.written).toEqual([]);
    expect(changes.rejected).toEqual([{ path: "leak", reason: "is a link" }]);
  });

  test("the in-memory shell does not see the environment of the process", async () => {
    process.env.GOLEM_CANARY = "canary-value";

    const { stdout } = await sh("env; echo $GOLEM_CANARY; cat /proc/*/environ");

    expect(stdout).not.toContain("canary");
  });

  test("the in-memory shell has no network", async () => {
    const server = createServer().listen(0, "127.0.0.1");
    let reached = false;
    server.on("connection", () => {
      reached = true;
    });
    const { port } = (await new Promise((resolve) => server.once("listening", resolve)).then(() =>
      server.address(),
    )) as {
      port: number;
    };

    const { exitCode } = await sh(
      `curl http://127.0.0.1:${port}/ || echo x > /dev/tcp/127.0.0.1/${port} && exec 3<>/dev/tcp/127.0.0.1/${port} && false`,
    );

    expect(exitCode).not.toBe(0);
    expect(reached).toBe(false);
    server.close();
  });

  test("the in-memory shell has no interpreter of another language", async () => {
    const { stdout } = await sh(
      "js-exec -c 'console.log(1)'; python3 -c 'print(1)'; sqlite3 :memory: 'select 1'; perl -e 'print 1'",
    );

    expect(stdout).toBe("");
  });

  test("the in-memory shell writes nothing in .git, in any spelling", async () => {
    const names = [
      ".git/hooks/pre-commit",
      ".GIT/config",
      "git~1/config",
      ".git./config",
      "a/.git/config",
      ".gitmodules",
    ];

    const { changes } = await sh(names.map((name) => `mkdir -p "$(dirname '${name}')"; echo x > '${name}'`).join("; "));

    expect(changes.written).toEqual([]);
    expect(changes.rejected.map(({ path }) => path).sort()).toEqual([...names].sort());
  });

  test("the in-memory shell ends a loop at its deadline, and runs the next command", async () => {
    const result = await sh("while true; do sleep 0.01; done", { timeoutMs: 300 });

    expect(result).toMatchObject({ timedOut: true, exitCode: null });
    expect((await sh("echo still here")).stdout).toBe("still here\n");
  });

  test("the in-memory shell ends a loop that never waits at the limit on commands", async () => {
    const result = await sh("while true; do while true; do :; done; done", { timeoutMs: 60_000 });

    expect(result).toMatchObject({ timedOut: false, exitCode: 126 });
    expect((await sh("echo still here")).stdout).toBe("still here\n");
  });

  test.each(["f() { f; }; f", "while true; do while true; do :; done; done", "jq -n '[0 | while(true; .)]'"])(
    "a message about a limit of the in-memory shell does not advise to change its program: %s",
    async (script) => {
      const { stderr } = await sh(script, { timeoutMs: 60_000 });

      expect(stderr).toMatch(/limit|exceeded|too many/);
      expect(stderr).not.toContain("increase");
    },
  );

  test.each([
    "rm -rf /",
    "rm -rf //",
    "rm -rf /*",
    "rm -rf /.",
    "rm -rf /workspace",
    "rm -rf /workspace/",
    "rm -rf /workspace/../",
    "rm -fr -- /",
    "rm -r -f --no-preserve-root /",
    "\\rm -rf '/'",
    'X=; rm -rf "$X/"',
    "cd src && rm -rf ../../workspace",
    "cd / && rm -rf workspace",
    "rm -rf src/../../workspace/./",
    "echo / | xargs rm -rf",
    "find / -delete",
    "find . -delete",
    "find /workspace -exec rm -rf {} +",
    "find / -type f -exec rm {} \\;",
    "mv /workspace /tmp/x",
    "bash -c 'rm -rf /'",
    "eval 'rm -rf /'",
    "env rm -rf /",
    "command rm -rf /",
    'f() { rm -rf "$1"; }; f /',
  ])("%s deletes nothing", async (script) => {
    const { changes, exitCode } = await sh(script);

    expect(changes).toMatchObject({ written: [], deleted: [] });
    expect(exitCode).not.toBe(0);
  });

  test("files that a command names are deleted", async () => {
    const { changes } = await sh("rm -rf src/deep; find . -name 'add.ts' -delete");

    expect(changes.deleted.sort()).toEqual(["src/add.ts", "src/deep/mul.ts"]);
  });

  test("sleep past the deadline is a timeout", async () => {
    const result = await sh("sleep 60", { timeoutMs: 200 });

    expect(result).toMatchObject({ timedOut: true, exitCode: null });
    expect(result.durationMs).toBeLessThan(30_000);
  });

  test("each timeout is reported as one, wherever the shell notices its deadline", async () => {
    const session = await executor.open();
    const results = [];
    for (let run = 0; run < 20; run++) results.push(await sh("sleep 60", { timeoutMs: 20 }, { session }));
    await session.close();

    expect(results.filter(({ timedOut }) => !timedOut)).toEqual([]);
  });

  test.each([
    ["timeout", "timeout 0.02 sleep 60"],
    ["exit", "echo 'bash: exceeded its execution deadline' >&2; exit 124"],
  ])("exit code 124 of %s is not a timeout", async (_, script) => {
    expect(await sh(script)).toMatchObject({ timedOut: false, exitCode: 124 });
  });

  test("an interrupted command ends at once and changes nothing", async () => {
    const session = await executor.open();
    const stop = new AbortController();
    const running = sh("echo x > README.md; sleep 60", { timeoutMs: 60_000, signal: stop.signal }, { session });

    stop.abort();

    await expect(running).rejects.toMatchObject({ code: "INTERRUPTED" });
    expect((await sh("cat README.md", {}, { session })).stdout).toBe("# Sums\n");
    await session.close();
  });

  test.each([
    ["a fork bomb", ":(){ :|:& };:"],
    ["a string that doubles", "x=aaaaaaaaaaaaaaaa; while true; do x=$x$x; done"],
    ["a brace bomb", "echo {1..99999999}"],
    ["recursion", "f(){ f; }; f"],
    ["a substitution tower", `echo ${"$(echo ".repeat(200)}x${")".repeat(200)}`],
    ["an output flood", "while true; do echo aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa; done"],
    [
      "a disk fill",
      "x=$(printf 'a%.0s' {1..5000}); for i in {1..9000}; do echo $x$x$x$x >> big; cat big big > b2; mv b2 big; done",
    ],
    ["a regex bomb", "echo aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa! | grep -P '^(a+)+$'"],
    ["a regex bomb in the shell", '[[ "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!" =~ ^(a+)+$ ]]'],
  ])("%s ends without harm", async (_, script) => {
    const result = await sh(script, { timeoutMs: 1_500 });

    expect(result.exitCode).not.toBe(0);
    expect((await sh("echo fine")).stdout).toBe("fine\n");
  });

  test("names of object properties are ordinary variable names in the in-memory shell", async () => {
    const { stdout } = await sh(
      // biome-ignore lint/suspicious/noTemplateCurlyInString: a script of bash
      "__proto__=1; constructor=2; echo $__proto__ $constructor; declare -A m; m[__proto__]=x; echo ${m[__proto__]} ${m[toString]}",
    );

    expect(stdout).toBe("1 2\nx\n");
  });

  test("sessions do not see one another", async () => {
    const [one, two] = [await executor.open(), await executor.open()];

    await sh("echo secret > /tmp/secret; export S=secret", {}, { session: one });

    expect((await sh("cat /tmp/secret; echo $S", {}, { session: two })).stdout).toBe("\n");
    await Promise.all([one.close(), two.close()]);
  });
});
