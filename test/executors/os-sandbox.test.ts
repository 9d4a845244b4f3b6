import { spawnSync } from "node:child_process";
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmdirSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { afterAll, afterEach, describe, expect, onTestFinished, test, vi } from "vitest";
import type { ExecRequest, ExecResult, ExecSession } from "#executors/executor.ts";
import { defaultGuestLimits } from "#executors/os/bubblewrap.ts";
import { controlGroup, groupFamilies, removeAbandonedGroups } from "#executors/os/control-group.ts";
import { createOsExecutor } from "#executors/os/os-executor.ts";
import { processTree, startedAt } from "#executors/os/process-tree.ts";
import { openSandbox } from "#sandbox/open-sandbox.ts";
import { workspaceTree } from "#toolsets/run-command.ts";
import { startGitServer } from "../support/git-server.ts";
import { memoryWorkspace } from "../support/memory-workspace.ts";

const parent = mkdtempSync(join(tmpdir(), "golem-os-test-"));
chmodSync(parent, 0o711);
/** The executor creates this folder. */
const directory = join(parent, "sandboxes");
const limits = {
  memoryMb: 1_024,
  diskMb: 96,
  diskFiles: 3_000,
  temporaryMb: 32,
  processes: 64,
  outputBytes: 4_000_000,
};
process.env.GOLEM_TEST_SECRET = "secret-of-the-host";
const executor = createOsExecutor({ directory, limits });
const availability = await executor.probe();
const group = controlGroup("test", { ...defaultGuestLimits, ...limits });
const hasControlGroup = group !== undefined;
group?.remove();
const files = { "README.md": "# Sums\n", "src/add.py": "def add(a, b):\n    return a + b\n" };

let sessions: ExecSession[] = [];
afterEach(async () => {
  await Promise.all(sessions.map((session) => session.close()));
  sessions = [];
});
afterAll(async () => {
  await executor.close();
  rmSync(parent, { recursive: true });
});

async function open(): Promise<ExecSession> {
  const session = await executor.open();
  sessions.push(session);
  return session;
}

interface Place {
  session?: ExecSession;
  workspace?: ReturnType<typeof memoryWorkspace>;
}

async function run(command: string[], request: Partial<ExecRequest> = {}, place: Place = {}): Promise<ExecResult> {
  const workspace = place.workspace ?? memoryWorkspace(files);
  const session = place.session ?? (await open());
  return session.exec(workspaceTree(workspace, workspace), {
    command,
    timeoutMs: 120_000,
    outputBytes: 20_000,
    ...request,
  });
}
const sh = (script: string, request?: Partial<ExecRequest>, place?: Place) =>
  run(["bash", "-c", script], request, place);
const python = (code: string, request?: Partial<ExecRequest>) => run(["python3", "-c", code], request);

/** Seconds that no program outside this test sleeps. */
const long = `9${process.pid}`;

function survivors(marker: string): string[] {
  return readdirSync("/proc").filter((pid) => {
    if (!/^\d+$/.test(pid)) return false;
    try {
      return readFileSync(`/proc/${pid}/cmdline`, "utf8").includes(marker);
    } catch {
      return false;
    }
  });
}

if (!availability.available) test.skip(`the OS sandbox is not tested here: ${availability.reason}`, () => undefined);

describe.skipIf(!availability.available)("command in the OS sandbox", () => {
  test("a command in the OS sandbox runs a real program on the run's tree and returns its changes", async () => {
    const result = await sh(
      "python3 -c 'import sys; sys.path.insert(0, \"src\"); import add; print(add.add(1, 2))'; node -p 1+1; echo x >&2; echo new > new.sh; chmod +x new.sh; rm README.md; mkdir -p node_modules/a; echo 1 > node_modules/a/i.js; exit 4",
    );

    expect(result).toMatchObject({ tier: "os", exitCode: 4, stdout: "3\n2\n", stderr: "x\n", timedOut: false });
    expect(result.changes).toMatchObject({
      written: [{ path: "new.sh", executable: true }],
      deleted: ["README.md"],
      rejected: [],
      ignoredFiles: 0,
    });
  });

  test("a command in the OS sandbox streams its output", async () => {
    const chunks: string[] = [];

    await sh("echo one; echo two >&2", { onOutput: (stream, chunk) => chunks.push(`${stream}: ${chunk}`) });

    expect(chunks.sort()).toEqual(["stderr: two\n", "stdout: one\n"]);
  });

  test("a command in the OS sandbox receives its arguments, environment and input unchanged", async () => {
    const args = ["-c", "a b", "$(id)", "new\nline", "--"];

    const { stdout } = await run(["bash", "-c", 'printf "[%s]" "$@" "$LD_X"; cat', "bash", ...args], {
      stdin: "in",
      env: { LD_X: "$(id)" },
    });

    expect(stdout).toBe("[-c][a b][$(id)][new\nline][--][$(id)]in");
  });

  test("later commands see what tools have written and the ignored files, and not changes that were discarded", async () => {
    const place = { session: await open(), workspace: memoryWorkspace(files) };
    await sh(
      "echo lost > README.md; echo lost > lost.txt; mkdir node_modules; echo kept > node_modules/kept",
      {},
      place,
    );
    await place.workspace.write("added.txt", "added\n");
    await place.workspace.remove("src/add.py");

    const { stdout, changes } = await sh(
      "cat README.md added.txt node_modules/kept; ls lost.txt src/add.py",
      {},
      place,
    );

    expect(stdout).toBe("# Sums\nadded\nkept\n");
    expect(changes).toMatchObject({ written: [], deleted: [], rejected: [] });
  });

  test("a command starts although the prepared process was killed, and leaves no process", async () => {
    // Test files share this process, so it may have child processes of other tests.
    const others = processTree(process.pid).slice(1);
    const session = await open();
    const before = (await sh("true", {}, { session })).exitCode;
    const waiting = () => {
      const foreign = new Set([process.pid, ...others.flatMap(processTree)]);
      return processTree(process.pid).filter((pid) => !foreign.has(pid) && startedAt(pid));
    };
    const ready = await vi.waitFor(
      () => {
        const found = waiting();
        expect(found).not.toEqual([]);
        return found;
      },
      { timeout: 60_000 },
    );
    for (const pid of ready) process.kill(pid, "SIGKILL");
    await vi.waitFor(() => expect(ready.filter((pid) => startedAt(pid))).toEqual([]), { timeout: 60_000 });

    const { stdout } = await sh("echo up", {}, { session });
    await session.close();

    expect([before, stdout, waiting()]).toEqual([0, "up\n", []]);
  });

  test("a program that has closed its sandbox can exit", () => {
    const program = `
      const { createOsExecutor } = await import("#executors/os/os-executor.ts");
      const executor = createOsExecutor({ directory: ${JSON.stringify(directory)} });
      const { available } = await executor.probe();
      await executor.open();
      await executor.close();
      console.log(available ? "over" : "no sandbox");
    `;

    const { stdout, status } = spawnSync(process.execPath, ["--input-type=module", "-e", program], {
      timeout: 120_000,
    });

    expect([stdout.toString(), status]).toEqual(["over\n", 0]);
  });

  test("cgroups of a program that was killed are removed by the next one, and those of running programs are kept", async () => {
    const families = groupFamilies().filter((family) => existsSync(family));
    const dead = spawnSync("true").pid;
    for (const family of families) {
      for (const pid of [dead, process.pid]) mkdirSync(`${family}/${pid}-left-1`);
    }

    removeAbandonedGroups();

    const left = families.map((family) => readdirSync(family).filter((name) => name.endsWith("-left-1")));
    for (const family of families) rmdirSync(`${family}/${process.pid}-left-1`);
    expect(left).toEqual(families.map(() => [`${process.pid}-left-1`]));
  });

  test("a command with a NUL in it is refused, and the next one runs", async () => {
    const session = await open();

    await expect(run(["echo", "a\0b"], {}, { session })).rejects.toThrow("NUL");

    expect((await run(["echo", "-n", "next"], {}, { session })).stdout).toBe("next");
  });

  test("an interrupted command leaves no process and no change", async () => {
    const place = { session: await open(), workspace: memoryWorkspace(files) };
    const stop = new AbortController();
    const running = sh(
      `echo gone > README.md; echo started; sleep ${long}1`,
      { signal: stop.signal, onOutput: () => stop.abort(), timeoutMs: 60_000 },
      place,
    );

    await expect(running).rejects.toMatchObject({ code: "INTERRUPTED" });

    expect(survivors(`sleep\0${long}1`)).toEqual([]);
    expect((await sh("cat README.md", {}, place)).stdout).toBe("# Sums\n");
  });
});

describe.skipIf(!availability.available)("in the OS sandbox", () => {
  test("users, home folders, settings of programs and trees of other runs do not exist", async () => {
    const other = await open();
    await sh("echo secret > mine", {}, { session: other });

    const { stdout } = await sh(
      `cat /etc/shadow /root/.bashrc ${process.cwd()}/package.json; ls /root /work /var /srv /mnt ${directory}; find / -name mine -not -path '/proc/*' 2>/dev/null; cut -d: -f1 /etc/passwd | tr '\\n' ' '`,
    );

    expect(stdout).toBe("root golem ");
  });

  test("the environment has nothing of the process that started it", async () => {
    const { stdout } = await sh("env; cat /proc/*/environ | tr '\\0' '\\n'");

    expect(stdout).not.toContain("secret-of-the-host");
    expect(stdout).toContain("HOME=/home/golem");
  });

  test("no address can be reached: loopback of the machine, cloud metadata, host names", async () => {
    let reached = false;
    const server = createServer(() => {
      reached = true;
    }).listen(0, "127.0.0.1");
    await new Promise((resolve) => server.once("listening", resolve));
    const { port } = server.address() as { port: number };

    const { stdout } = await python(
      [
        "import socket",
        `targets = [('127.0.0.1', ${port}), ('169.254.169.254', 80), ('1.1.1.1', 53)]`,
        "for target in targets:",
        "    try: socket.create_connection(target, 1); print('reached', target)",
        "    except OSError: pass",
        "for target in [('fd00:ec2::254', 80), ('::1', 22)]:",
        "    try: socket.socket(socket.AF_INET6).connect(target); print('reached', target)",
        "    except OSError: pass",
        "try: print(socket.gethostbyname('example.com'))",
        "except OSError: print('no names')",
        "print(open('/proc/net/unix').read().count('@'))",
      ].join("\n"),
    );

    expect(stdout).toBe("no names\n0\n");
    expect(reached).toBe(false);
    server.close();
  });

  test("there are no capabilities and no way to gain privileges", async () => {
    const { stdout } = await sh(
      "grep -E '^(CapEff|CapPrm|CapBnd|NoNewPrivs|Seccomp):' /proc/self/status | tr -d '\\t'; stat -c %u /proc/sys/kernel/core_pattern; id -u",
    );

    expect(stdout).toMatch(/CapPrm:0+\nCapEff:0+\nCapBnd:0+\nNoNewPrivs:1\nSeccomp:2\n65534\n1000\n/);
  });

  test("kernel settings and programs cannot be opened for writing", async () => {
    const { stdout } = await python(
      [
        "import os",
        "paths = ['/proc/sys/kernel/core_pattern', '/proc/sys/vm/drop_caches', '/proc/sys/vm/overcommit_memory', '/proc/sys/kernel/modprobe',",
        "  '/proc/sysrq-trigger', '/proc/1/mem', '/usr/bin/bash', '/opt/node/bin/node', '/sys/kernel/uevent_helper', '/dev/mem', '/dev/kmsg']",
        "for path in paths:",
        "    try: os.close(os.open(path, os.O_WRONLY)); print('opened', path)",
        "    except OSError: pass",
        "for path in ['/x', '/usr/x', '/etc/x', '/dev/x', '/opt/x', '/run/x']:",
        "    try: os.close(os.open(path, os.O_WRONLY | os.O_CREAT)); print('made', path)",
        "    except OSError: pass",
        "print('done')",
      ].join("\n"),
    );

    // The sandbox's first process belongs to the same user, so /proc/1/mem is as harmless as a process's own memory.
    expect(stdout.replace("opened /proc/1/mem\n", "")).toBe("done\n");
  });

  test("namespaces, mounts, roots and devices cannot be created", async () => {
    const { stdout } = await sh(
      "unshare -Ur true && echo userns; unshare -m true && echo mount; mount -t tmpfs x /tmp && echo mounted; chroot / true && echo chroot; nsenter -t 1 -a true && echo nsenter; mknod /tmp/d b 8 0 && echo mknod; echo done",
    );

    expect(stdout).toBe("done\n");
  });

  test("system calls that repository code never needs are refused", async () => {
    const arm = process.arch === "arm64";
    const numbers = {
      io_uring: 425,
      bpf: arm ? 280 : 321,
      keyctl: arm ? 219 : 250,
      userfaultfd: arm ? 282 : 323,
      perf: arm ? 241 : 298,
      ptrace: arm ? 117 : 101,
      clone3: 435,
      unshare: arm ? 97 : 272,
      process_vm_readv: arm ? 270 : 310,
    };

    const { stdout } = await python(
      [
        "import ctypes, socket, fcntl, errno",
        "libc = ctypes.CDLL(None, use_errno=True)",
        `for name, number in ${JSON.stringify(numbers)}.items():`,
        "    ctypes.set_errno(0)",
        "    result = libc.syscall(number, 0, 0, 0, 0, 0)",
        "    if result != -1 or ctypes.get_errno() not in (errno.EPERM, errno.ENOSYS): print('open', name, result, ctypes.get_errno())",
        "for family in (38, 40, 17, 31):",
        "    try: socket.socket(family, socket.SOCK_STREAM); print('family', family)",
        "    except OSError as error:",
        "        if error.errno != errno.EAFNOSUPPORT: print('family', family, error)",
        "try: fcntl.ioctl(0, 0x5412, b'x'); print('TIOCSTI')",
        "except OSError as error:",
        "    if error.errno != errno.EPERM: print('TIOCSTI', error)",
        ...(arm ? [] : ["print(libc.syscall(0x40000000 + 39), ctypes.get_errno() == errno.ENOSYS)"]),
        "import subprocess, threading; threading.Thread(target=print, args=('threads work',)).start()",
        "subprocess.run(['echo', 'processes work'])",
      ].join("\n"),
    );

    expect(stdout).toContain("threads work\n");
    expect(stdout).toContain("processes work\n");
    expect(stdout).not.toMatch(/open|family|TIOCSTI/);
    if (!arm) expect(stdout).toContain("-1 True\n");
  });

  test.skipIf(process.arch !== "x64")("an i386 system call ends the program", async () => {
    const { exitCode, stdout } = await sh(
      'python3 -c \'import ctypes, mmap; m = mmap.mmap(-1, 4096, prot=7); m.write(bytes.fromhex("b814000000cd80c3")); ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(m)))(); print("lived")\'',
    );

    expect(stdout).not.toContain("lived");
    expect(exitCode).toBe(128 + 31);
  });

  test("there are no terminal and no file descriptors besides the standard three", async () => {
    const { stdout } = await sh(
      // biome-ignore lint/suspicious/noTemplateCurlyInString: a script of bash
      'for fd in /proc/$$/fd/*; do [ -L "$fd" ] && echo ${fd##*/}; done; tty; (exec 3<>/dev/tty) 2>/dev/null && echo terminal',
    );

    expect(stdout).toBe("0\n1\n2\nnot a tty\n");
  });
});

describe.skipIf(!availability.available)("limits of a command in the OS sandbox", () => {
  test("the number of processes is limited", async () => {
    const { exitCode, stderr } = await python(
      "import os, time\nfor i in range(200):\n    if os.fork() == 0: time.sleep(20)",
    );

    expect(exitCode).not.toBe(0);
    expect(stderr).toMatch(/Resource temporarily unavailable/);
  });

  test.each([
    [3_000, hasControlGroup ? 0 : 1],
    [5_000, 1],
  ])(
    "the memory of one process is limited, which may reserve more than it uses under a control group: %i MB",
    async (megabytes, expected) => {
      const reserve = `import mmap; mmap.mmap(-1, ${megabytes} << 20, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)`;

      expect((await python(reserve)).exitCode).toBe(expected);
    },
  );

  test("output is limited to its beginning and its end", async () => {
    const { stopped, stdout, truncated } = await sh("yes 0123456789", { outputBytes: 1_000 });

    expect(stopped).toMatch(/too much output/);
    expect(truncated).toBe(true);
    expect(stdout.length).toBeLessThan(1_100);
  });

  test("output that is not text does no harm", async () => {
    const { stdout } = await sh("printf 'a\\xff\\xfe\\033]0;title\\007b'; head -c 100000 /dev/zero | tr '\\0' x", {
      outputBytes: 60,
    });

    expect(stdout).toMatch(/^a\ufffd\ufffd/);
  });

  test.each([
    ["a loop", "while true; do :; done"],
    ["deafness to signals", `trap '' TERM INT HUP; sleep ${long}2; sleep ${long}2`],
    ["a daemon", `setsid sh -c 'trap "" TERM; sleep ${long}2' </dev/null >/dev/null 2>&1 & disown; sleep ${long}2`],
    ["a daemon that holds the output", `(setsid sh -c 'sleep ${long}2; sleep ${long}2' &) ; sleep ${long}2`],
  ])("the time is limited: %s", async (_, script) => {
    const result = await sh(script, { timeoutMs: 400 });

    expect(result).toMatchObject({ timedOut: true, exitCode: null });
    expect(result.durationMs).toBeLessThan(30_000);
    expect(survivors(`sleep\0${long}2`)).toEqual([]);
  });

  test("a daemon does not outlive its command", async () => {
    const { exitCode, durationMs } = await sh(`(setsid sh -c 'sleep ${long}3; sleep ${long}3' &); echo done`);

    expect(exitCode).toBe(0);
    expect(durationMs).toBeLessThan(30_000);
    expect(survivors(`sleep\0${long}3`)).toEqual([]);
  });
});

describe.skipIf(!availability.available)("reading the changes of the OS sandbox", () => {
  test("reading the changes follows no link and waits for no pipe", async () => {
    const { changes } = await sh(
      "rm README.md; ln -s /etc/shadow README.md; ln -s /root/.npmrc leak; ln -s /root sub; ln -s src alias; mkfifo pipe; python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"sock\")'; echo x > a; ln a b; cp /bin/true s; chmod u+s s",
    );

    expect(changes.written).toEqual([]);
    const reasons = Object.fromEntries(changes.rejected.map(({ path, reason }) => [path, reason]));
    expect(reasons).toEqual({
      "README.md": "is a link",
      leak: "is a link",
      sub: "is a link",
      alias: "is a link",
      pipe: "is a device, socket or pipe",
      sock: "is a device, socket or pipe",
      a: "is a hard link",
      b: "is a hard link",
      s: "is a program with a setuid bit",
    });
  });

  test("the sandbox contains the repository's own links, and reading the changes follows none of them", async () => {
    const server = await startGitServer();
    onTestFinished(() => server.close());
    const repository = await server.repository();
    const files = {
      "a.txt": "a\n",
      "sub/inner.txt": "inner\n",
      link: { link: "a.txt" },
      "sub/folder": { link: "../sub" },
      later: { link: "build/out" },
      outside: { link: "../../etc/passwd" },
      absolute: { link: "/etc/passwd" },
    };
    await repository.commit({ files });
    const source = { tenant: "1/1", url: repository.url, token: async () => undefined };
    const sandbox = await openSandbox({ source, at: { branch: undefined }, changes: [] });
    const session = await open();
    const exec = (script: string) =>
      session.exec(workspaceTree(sandbox, sandbox), {
        command: ["bash", "-c", script],
        timeoutMs: 120_000,
        outputBytes: 20_000,
      });

    const first = await exec(
      "readlink link sub/folder later; ls; git status --short; echo two > link; echo new > sub/folder/new.txt",
    );
    const second = await exec(
      "ln -sfn /etc/passwd link; rm -r sub later; ln -s /etc sub; touch -h -d '2000-01-01' link sub",
    );
    const third = await exec("readlink link sub sub/folder later; cat sub/inner.txt; rm link; echo file > link");

    expect(first.stdout).toBe("a.txt\n../sub\nbuild/out\na.txt\nlater\nlink\nsub\n");
    expect(first.changes).toMatchObject({ written: [{ path: "a.txt" }, { path: "sub/new.txt" }], rejected: [] });
    expect(second.changes.written).toEqual([]);
    expect(second.changes.deleted.sort()).toEqual(["later", "sub/folder", "sub/inner.txt"]);
    expect(second.changes.rejected).toEqual([
      { path: "link", reason: "is a link" },
      { path: "sub", reason: "is a link" },
    ]);
    expect(third.stdout).toBe("a.txt\n../sub\nbuild/out\ninner\n");
    await sandbox.write("a.txt", "run\n");
    expect((await exec("cat link; rm link; echo file > link")).changes.written).toMatchObject([{ path: "link" }]);
    expect((await exec("readlink link; cat link")).stdout).toBe("a.txt\nrun\n");
  });

  test("reading the changes never makes a later write leave the tree", async () => {
    const outside = join(directory, "outside");
    const place = { session: await open(), workspace: memoryWorkspace(files) };
    await sh(`rm -r src; ln -s ${outside} src`, {}, place);
    await place.workspace.write("src/new.py", "x = 1\n");

    const { stdout } = await sh("stat -c %F src; cat src/new.py", {}, place);

    expect(stdout).toBe("directory\nx = 1\n");
    expect(existsSync(outside)).toBe(false);
  });

  test("nothing of .git is returned, in any spelling", async () => {
    const { changes } = await sh(
      "mkdir -p .git/hooks .GIT src/.git; echo x | tee .git/hooks/pre-commit .GIT/config src/.git/config .gitmodules git~1 >/dev/null",
    );

    expect(changes.written).toEqual([]);
    expect(changes.rejected.map(({ path }) => path).sort()).toEqual([
      ".GIT",
      ".git",
      ".gitmodules",
      "git~1",
      "src/.git",
    ]);
  });

  test("programs can read .git, and what they write there has no effect outside", async () => {
    const server = await startGitServer();
    onTestFinished(() => server.close());
    const repository = await server.repository();
    const commit = await repository.commit({
      message: "First",
      files: {
        "a.txt": "one\n",
        "b/run.sh": { content: "echo\n", executable: true },
        "b.txt": "b\n",
        link: { link: "a.txt" },
        module: { submodule: "a".repeat(40) },
        // A folder that git would take for a repository, with a program in its settings.
        "bare/HEAD": "ref: refs/heads/main\n",
        "bare/objects/x": "",
        "bare/refs/x": "",
        "bare/config":
          '[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tworktree = ..\n\tfsmonitor = "touch /workspace/ran; false"\n',
      },
    });
    const source = { tenant: "1/1", url: repository.url, token: async () => undefined };
    const at = { branch: undefined };
    const sandbox = await openSandbox({ source, at, changes: [] });
    const part = await openSandbox({ source, at, changes: [], policy: { restrict: "/b" } });
    await sandbox.write("a.txt", "two\n");
    await sandbox.write("new.txt", "new\n");
    const exec = async (tree: typeof sandbox, script: string, session: ExecSession) =>
      session.exec(workspaceTree(tree, tree), {
        command: ["bash", "-c", script],
        timeoutMs: 120_000,
        outputBytes: 20_000,
      });
    const session = await open();

    const { stdout, stderr, changes } = await exec(
      sandbox,
      "git -C bare status 2>/dev/null; ls ran 2>/dev/null; git status --short --branch; git log --format='%H %s'; git diff | tail -2; git fsck --strict; git stash create | wc -c; git rev-parse origin/main; cd b; git rev-parse --show-toplevel; echo x > ../.git/hooks",
      session,
    );
    const after = await exec(sandbox, "git add -A; git status --short; cat .git/hooks link", session);
    const restricted = await exec(part, "git status; ls -A", await open());

    expect({ stdout, stderr }).toEqual({
      stdout: `## main\n M a.txt\n?? new.txt\n${commit} First\n-one\n+two\n41\n${commit}\n/workspace\n`,
      stderr: "",
    });
    expect(changes).toEqual({ written: [], deleted: [], rejected: [], ignoredFiles: 0 });
    expect(after).toMatchObject({ stdout: "M  a.txt\nA  new.txt\nx\ntwo\n", changes: { written: [], rejected: [] } });
    expect(restricted).toMatchObject({ stdout: "b\n", stderr: expect.stringContaining("not a git repository") });
  });

  test("a later run on the same commit uses files that were written in advance, unchanged by earlier runs", async () => {
    const server = await startGitServer();
    onTestFinished(() => server.close());
    const repository = await server.repository();
    const many = Object.fromEntries(Array.from({ length: 600 }, (_, at) => [`src/${at}.txt`, `${at}\n`]));
    await repository.commit({
      message: "First",
      files: {
        ...many,
        "changed.txt": "base\n",
        "deleted.txt": "base\n",
        "run.sh": { content: "#!/bin/sh\necho ran\n", executable: true },
        link: { link: "run.sh" },
        ".gitignore": "out/\n",
      },
    });
    const source = { tenant: "1/1", url: repository.url, token: async () => undefined };
    const openRun = () => openSandbox({ source, at: { branch: undefined }, changes: [] });
    const exec = async (tree: Awaited<ReturnType<typeof openRun>>, script: string, session: ExecSession) =>
      session.exec(workspaceTree(tree, tree), {
        command: ["bash", "-c", script],
        timeoutMs: 120_000,
        outputBytes: 20_000,
      });
    const spareInode = async () => {
      const [own = ""] = readdirSync(directory).filter((name) => name.startsWith("golem-forge-"));
      return vi.waitFor(
        () => {
          const spare = readdirSync(join(directory, own)).find((name) => name.startsWith("spare-")) ?? "";
          statSync(join(directory, own, spare, "src/99.txt"));
          return statSync(join(directory, own, spare, "run.sh")).ino;
        },
        { timeout: 60_000, interval: 20 },
      );
    };

    const first = await openRun();
    await first.write("changed.txt", "run\n");
    await first.remove("deleted.txt");
    await first.write("own.txt", "run\n");
    await exec(first, "echo command > src/5.txt; echo > left.txt; mkdir out; echo > out/left", await open());
    const inode = await spareInode();
    const second = await openRun();
    await second.write("src/7.txt", "second\n");
    const session = await open();
    const { stdout, changes } = await exec(
      second,
      "stat -c %i run.sh; cat changed.txt deleted.txt src/5.txt src/7.txt; ./run.sh; ./link; ls; git status --short; echo new >> src/8.txt",
      session,
    );

    expect(stdout).toBe(
      `${inode}\nbase\nbase\n5\nsecond\nran\nran\nchanged.txt\ndeleted.txt\nlink\nrun.sh\nsrc\n M src/7.txt\n`,
    );
    expect(changes.written.map(({ path }) => path)).toEqual(["src/8.txt"]);
    expect((await exec(second, "cat src/8.txt; stat -c %i run.sh", session)).stdout).toBe(`8\n${inode}\n`);
  });

  test("names that another file system would understand differently are refused", async () => {
    const { changes } = await python(
      [
        "import os, unicodedata",
        "open('caf\\u00e9', 'w').close(); open('cafe\\u0301', 'w').close()",
        "open(b'bad\\xff', 'w').close(); open('new\\nline', 'w').close()",
        "os.makedirs('/'.join(['d' * 200] * 18)); p = os.getcwd()",
        "for i in range(18): os.chdir('d' * 200)",
        "for i in range(10):",
        "    os.mkdir('e' * 200); os.chdir('e' * 200)",
        "open('deep', 'w').close()",
      ].join("\n"),
    );

    expect(changes.written).toHaveLength(1);
    expect(changes.rejected.map(({ reason }) => reason).sort()).toEqual(
      expect.arrayContaining([
        "has a name that is not UTF-8",
        "has control characters in its name",
        "has the same name as another file, in another spelling",
      ]),
    );
  });

  test("the size of a file is checked before it is read", async () => {
    const { changes } = await sh("truncate -s 20M sparse; echo small > small");

    expect(changes.written.map(({ path }) => path)).toEqual(["small"]);
    expect(changes.rejected).toMatchObject([{ path: "sparse", reason: "is larger than 10 MB" }]);
  });

  test("a change whose time was set back is detected", async () => {
    const { changes } = await sh(
      "touch -r README.md stamp; printf '# Mums\\n' > README.md; touch -r stamp README.md; rm stamp",
    );

    expect(changes.written.map(({ path, content }) => [path, Buffer.from(content).toString()])).toEqual([
      ["README.md", "# Mums\n"],
    ]);
  });

  test("programs of a folder below /tmp can be run, and nothing else of /tmp is visible", async () => {
    const tools = mkdtempSync("/tmp/golem-tools-");
    onTestFinished(() => rmSync(tools, { recursive: true }));
    mkdirSync(join(tools, "bin"));
    writeFileSync(join(tools, "bin/greet"), "#!/bin/sh\necho hello > /tmp/own; cat /tmp/own\n");
    for (const path of ["", "bin", "bin/greet"]) chmodSync(join(tools, path), 0o755);
    const session = await executor.open({ tools: [tools, "/tmp"] });
    sessions.push(session);

    const { stdout } = await sh("greet; ls /tmp", {}, { session });

    expect(stdout.split("\n").filter(Boolean)).toEqual(["hello", basename(tools), "own"]);
  });

  test("folders that cannot be read are skipped", async () => {
    const session = await open();
    await sh("mkdir -p closed/in; echo x > closed/in/f; chmod 0 closed/in closed", {}, { session });

    expect((await sh("echo fine", {}, { session })).stdout).toBe("fine\n");
  });
});

test("closing the sessions removes their folders", async () => {
  await executor.close();

  expect(readdirSync(directory)).toEqual([]);
});
