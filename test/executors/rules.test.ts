import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { createExecutors } from "#executors/create-executors.ts";
import { sandboxUser } from "#executors/os/launch.ts";
import { runEscapeChecks } from "#executors/os/os-executor.ts";
import { seccompFilter } from "#executors/os/seccomp-filter.ts";
import { outputBudget } from "#executors/output-budget.ts";
import { isPublicAddress, publicAddresses } from "#executors/public-address.ts";
import { ignoredFiles } from "#executors/tree-mirror.ts";
import { pathProblem, validateChanges } from "#executors/validate-changes.ts";

describe("a path that comes out of a sandbox", () => {
  test.each([
    "../x",
    "a/../../x",
    "/etc/passwd",
    "",
    ".",
    "a//b",
    "a/./b",
    ".git/config",
    ".GIT/x",
    "a/.Git",
    "git~1/x",
    "GIT~2",
    ".git /x",
    ".git./x",
    ".git::$INDEX_ALLOCATION/x",
    ".g\u200cit/x",
    "a\\.git\\config",
    "a\0b",
    "a\nb",
    "bad\ufffd",
    ".gitmodules",
    ".GITMODULES",
    ".gitmodules. ",
    ".git\u200cmodules",
    "GITMOD~1",
    "gi7eba~1",
    `${"d/".repeat(2_100)}x`,
    "n".repeat(256),
  ])("%j is refused", (path) => {
    expect(pathProblem(path)).toBeDefined();
  });

  test.each(["a", "src/a.ts", ".github/workflows/ci.yml", ".gitignore", "a b/c'd", "git/x", "ünïcode", "x.git"])(
    "%j is accepted",
    (path) => {
      expect(pathProblem(path)).toBeUndefined();
    },
  );

  test("an accepted path is below the root", () => {
    fc.assert(
      fc.property(
        fc.array(fc.constantFrom("..", ".", "a", "", ".git", "b.c", "\\", "~"), { maxLength: 6 }),
        (parts) => {
          const path = parts.join("/");
          if (pathProblem(path)) return;
          expect(new URL(`file:///root/${encodeURI(path)}`).pathname.startsWith("/root/")).toBe(true);
        },
      ),
    );
  });
});

test("names are checked first, then sizes, then contents, and checking stops at the limits", async () => {
  const reads: string[] = [];
  const file = (path: string, size: number) => ({
    kind: "file" as const,
    path,
    size,
    executable: false,
    read: () => {
      reads.push(path);
      return new Uint8Array(size);
    },
  });

  const changes = await validateChanges(
    [
      file("../a", 1),
      file("big", 1e12),
      file("lying", 5),
      file("one", 60),
      file("two", 60),
      file("n/x", 1),
      { kind: "gone", path: "../g" },
    ],
    {
      resolve: (path) => path,
      known: new Set(),
      isIgnored: (path) => path.startsWith("n/"),
      limits: { fileBytes: 100, totalBytes: 100, files: 5 },
    },
  );

  expect(reads).toEqual(["lying", "one"]);
  expect(changes.written.map(({ path }) => path)).toEqual(["lying", "one"]);
  expect(changes.rejected.map(({ path }) => path)).toEqual(["../a", "big", "two", "../g"]);
  expect(changes.ignoredFiles).toBe(1);
});

test("a change outside the part of the tree that a worker can see is refused with the reason", async () => {
  const resolve = (path: string) => {
    if (!path.startsWith("src/")) throw new Error("outside");
    return path;
  };
  const gone = (path: string) => ({ kind: "gone" as const, path });

  const changes = await validateChanges([gone("src/a"), gone("docs/b")], {
    resolve,
    known: new Set(),
    isIgnored: () => false,
  });

  expect(changes.deleted).toEqual(["src/a"]);
  expect(changes.rejected).toEqual([
    { path: "docs/b", reason: "is outside the part of the tree that this worker can see" },
  ]);
});

test("files that any .gitignore or the default list ignores are omitted", () => {
  const isIgnored = ignoredFiles(
    new Map([
      [".gitignore", "dist/\n*.log\n!keep.log\n"],
      ["packages/a/.gitignore", "/out\n"],
    ]),
  );

  expect(["dist/a", "x.log", "packages/a/out/b", "node_modules/x", "a/__pycache__/b.pyc"].every(isIgnored)).toBe(true);
  expect(["src/dist.ts", "keep.log", "packages/out/b", "src/a.ts"].some(isIgnored)).toBe(false);
});

test("output within the limit is kept whole; longer output keeps its beginning and its end", () => {
  fc.assert(
    fc.property(fc.array(fc.string()), fc.integer({ min: 2, max: 200 }), (chunks, bytes) => {
      const budget = outputBudget(bytes);
      for (const chunk of chunks) budget.push(Buffer.from(chunk));
      const whole = Buffer.from(chunks.join(""));

      if (!budget.truncated) expect(budget.text()).toBe(whole.toString());
      else expect(budget.text().length).toBeLessThanOrEqual(bytes + 60);
      expect(budget.receivedBytes).toBe(whole.length);
    }),
  );
});

test("truncation never leaves part of a word, such as half of a key", () => {
  for (let before = 0; before < 60; before += 1) {
    const budget = outputBudget(100);
    budget.push(
      Buffer.from(
        `${"a ".repeat(before)}key-that-opens-everything ${"b ".repeat(60)}key-that-opens-everything${" c".repeat(before)}`,
      ),
    );

    expect(budget.text().replaceAll("key-that-opens-everything", "")).not.toMatch(/key|opens|everything/);
  }
});

test.each([
  ["0.0.0.0"],
  ["10.0.0.1"],
  ["100.64.0.1"],
  ["127.0.0.1"],
  ["169.254.169.254"],
  ["172.16.0.1"],
  ["192.0.2.1"],
  ["192.168.1.1"],
  ["198.18.0.1"],
  ["224.0.0.1"],
  ["240.0.0.1"],
  ["255.255.255.255"],
  ["::"],
  ["::1"],
  ["::ffff:127.0.0.1"],
  ["::ffff:10.0.0.1"],
  ["64:ff9b::7f00:1"],
  ["2002:7f00:1::"],
  ["2001::1"],
  ["fc00::1"],
  ["fd00:ec2::254"],
  ["fe80::1"],
  ["fec0::1"],
  ["::7f00:1"],
  ["::169.254.169.254"],
  ["168.63.129.16"],
  ["ff02::1"],
  ["2001:db8::1"],
  ["not an address"],
])("%s is not public", (address) => {
  expect(isPublicAddress(address)).toBe(false);
});

test("a host with one private address is refused", async () => {
  const mixed = async () => [
    { address: "93.184.215.14", family: 4 as const },
    { address: "10.0.0.1", family: 4 as const },
  ];

  await expect(publicAddresses("mixed.example", mixed)).rejects.toThrow("not on the public internet");
  expect(isPublicAddress("93.184.215.14") && isPublicAddress("2606:2800:21f:cb07:6820:80da:af6b:8b2c")).toBe(true);
});

describe("the OS sandbox is unavailable", () => {
  const report = {
    user: true,
    capabilities: true,
    privileges: true,
    filter: true,
    settings: true,
    network: true,
    interfaces: true,
    environment: true,
    outside: true,
    program: true,
    namespaces: true,
    memory: true,
    processes: true,
    descriptors: true,
  };
  const launched =
    (stdout: string, exitCode = 0) =>
    async () => ({ exitCode, stdout, stderr: "bwrap: no\n", truncated: false, timedOut: false, durationMs: 1 });

  test("the OS sandbox is unavailable when any escape check succeeds in escaping or does not finish", async () => {
    expect(await runEscapeChecks(launched(JSON.stringify(report)))).toBeUndefined();
    for (const name of Object.keys(report)) {
      expect(await runEscapeChecks(launched(JSON.stringify({ ...report, [name]: false })))).toMatch(
        /^escape checks failed: /,
      );
      expect(await runEscapeChecks(launched(JSON.stringify({ ...report, [name]: undefined })))).toMatch(
        /^escape checks failed: /,
      );
    }
  });

  test("the OS sandbox is unavailable when it does not start, with bubblewrap's error", async () => {
    expect(await runEscapeChecks(launched("", 1))).toBe("it does not start: bwrap: no");
  });

  test.skipIf(process.getuid?.() !== 0)("to root, and to another user's uid", () => {
    expect(sandboxUser(0)).toHaveProperty("problem");
    expect(sandboxUser(65_534)).toHaveProperty("problem");
    expect(sandboxUser(58_214)).toEqual({ user: { uid: 58_214, gid: 58_214 } });
  });

  test("the OS sandbox is unavailable when it is disabled by configuration, with the reason", async () => {
    const said: string[] = [];
    const executors = createExecutors({
      os: false,
      onAvailability: ({ tier, reason }) => said.push(`${tier}: ${reason}`),
    });

    await expect(executors.openSession("os", "run")).rejects.toMatchObject({ code: "UNAVAILABLE" });
    await expect(executors.openSession("os", "run")).rejects.toThrow(
      "unavailable: no OS sandbox (it is switched off by this deployment)",
    );

    expect(said).toEqual(["os: no OS sandbox (it is switched off by this deployment)"]);
    await executors.close();
  });
});

test.each(["x64", "arm64"] as const)("every jump of the %s filter has a target inside the filter", (arch) => {
  const program = seccompFilter(arch);
  const length = program.length / 8;

  for (let at = 0; at < length; at += 1) {
    const isJump = (program.readUInt16LE(at * 8) & 0x07) === 0x05;
    const furthest = Math.max(program.readUInt8(at * 8 + 2), program.readUInt8(at * 8 + 3));
    if (isJump) expect(at + 1 + furthest).toBeLessThan(length);
  }
  expect(program.readUInt16LE((length - 1) * 8)).toBe(0x06);
});

/** Returns the kernel's decision about a system call, by running the filter as the kernel does. */
function verdictOf(
  program: Buffer,
  { arch, number, args = [] }: { arch: number; number: number; args?: number[] },
): string {
  const data = Buffer.alloc(64);
  data.writeUInt32LE(number >>> 0, 0);
  data.writeUInt32LE(arch >>> 0, 4);
  for (const [at, value] of args.entries()) data.writeUInt32LE(value >>> 0, 16 + at * 8);
  let held = 0;
  for (let at = 0; ; at += 1) {
    const code = program.readUInt16LE(at * 8);
    const value = program.readUInt32LE(at * 8 + 4);
    if (code === 0x06) return { 32767: "allowed", 32768: "killed", 5: `refused ${value & 0xffff}` }[value >>> 16] ?? "";
    if (code === 0x20) held = data.readUInt32LE(value);
    else {
      const holds = { 21: held === value, 53: held >= value, 69: (held & value) !== 0 }[code];
      at += program.readUInt8(at * 8 + (holds ? 2 : 3));
    }
  }
}

test.each(["x64", "arm64"] as const)(
  "the %s filter allows what programs need, and no call of another architecture",
  (arch) => {
    const program = seccompFilter(arch);
    const own = arch === "x64" ? 0xc000003e : 0xc00000b7;
    const number = (x64: number, arm64: number) => (arch === "x64" ? x64 : arm64);
    const ask = (called: number, ...args: number[]) => verdictOf(program, { arch: own, number: called, args });

    // read, write, mmap, and the calls that threads and processes need.
    for (const called of [number(0, 63), number(1, 64), number(9, 222)]) expect(ask(called)).toBe("allowed");
    expect(ask(number(56, 220), 0x003d_0f00)).toBe("allowed");
    expect(ask(number(56, 220), 0x1000_0000)).toBe("refused 1");
    expect(ask(435)).toBe("refused 38");
    // bpf, ptrace, mount, unshare, io_uring.
    for (const called of [number(321, 280), number(101, 117), number(165, 40), number(272, 97), 425]) {
      expect(ask(called)).toBe("refused 1");
      expect(ask(0x4000_0000 + called)).toBe("refused 38");
    }
    for (const family of [1, 2, 10, 16]) expect(ask(number(41, 198), family)).toBe("allowed");
    for (const family of [17, 31, 38, 40]) expect(ask(number(41, 198), family)).toBe("refused 97");
    expect(ask(number(16, 29), 0, 0x5412)).toBe("refused 1");
    // The numbers of i386, 32-bit ARM and the other of the two.
    for (const foreign of [0x4000_0003, 0x4000_0028, own ^ 0x89]) {
      expect(verdictOf(program, { arch: foreign, number: 1 })).toBe("killed");
    }
  },
);
