import { chmodSync, existsSync, mkdirSync, mkdtempSync, rmdirSync, rmSync, writeFileSync } from "node:fs";
import { connect, createServer, type Server } from "node:net";
import { homedir, tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, describe, expect, test, vi } from "vitest";
import type { ExecRequest, ExecResult, ExecSession } from "#executors/executor.ts";
import { createOsExecutor } from "#executors/os/os-executor.ts";
import { workspaceTree } from "#toolsets/run-command.ts";
import { memoryWorkspace } from "../support/memory-workspace.ts";

const directory = mkdtempSync(join(tmpdir(), "golem-os-abuse-"));
chmodSync(directory, 0o711);
const executor = createOsExecutor({ directory, limits: { changedFiles: 100 } });
const availability = await executor.probe();
const files = { "README.md": "# Sums\n", "src/a.ts": "a\n" };
const open: { close(): unknown }[] = [];

afterEach(async () => {
  vi.unstubAllEnvs();
  for (const one of open.splice(0)) await one.close();
});
afterAll(async () => {
  await executor.close();
  rmSync(directory, { recursive: true });
});

async function session(): Promise<ExecSession> {
  const opened = await executor.open();
  open.push(opened);
  return opened;
}

async function run(command: string[], more: Partial<ExecRequest> = {}, place?: ExecSession): Promise<ExecResult> {
  const workspace = memoryWorkspace(files);
  const request = { command, timeoutMs: 120_000, outputBytes: 20_000, ...more };
  return (place ?? (await session())).exec(workspaceTree(workspace, workspace), request);
}
const sh = (script: string, more?: Partial<ExecRequest>, place?: ExecSession) =>
  run(["bash", "-c", script], more, place);
const python = (lines: string[], more?: Partial<ExecRequest>, place?: ExecSession) =>
  run(["python3", "-c", lines.join("\n")], more, place);

/** A service on this machine, like that of a desktop, an agent or a container engine. */
async function service(path: string, connections: string[]): Promise<string> {
  const server: Server = createServer((socket) => {
    connections.push(path);
    socket.end("secret of the service\n");
  });
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(path, resolve);
  });
  if (!path.startsWith("\0")) chmodSync(path, 0o777);
  open.push({ close: () => new Promise((resolve) => server.close(resolve)) });
  // From outside it answers.
  expect(Buffer.concat(await connect(path).toArray()).toString()).toBe("secret of the service\n");
  connections.length = 0;
  return path;
}

test.runIf(process.env.GOLEM_FORGE_TEST_SANDBOX === "required")(
  "the OS sandbox is available, as the environment requires",
  () => {
    expect(availability).toMatchObject({ available: true });
  },
);
if (!availability.available)
  test.skip(`the OS sandbox's abuse cases are not run here: ${availability.reason}`, () => undefined);

describe.skipIf(!availability.available)("in the OS sandbox", () => {
  test("no socket of the machine can be reached: X11, ssh-agent, docker, abstract sockets", async () => {
    const connections: string[] = [];
    const display = `${process.pid}`;
    const x11 = join(tmpdir(), ".X11-unix");
    const isOurs = !existsSync(x11);
    if (isOurs) mkdirSync(x11, { mode: 0o1777 });
    const folder = mkdtempSync(join(tmpdir(), "ssh-"));
    chmodSync(folder, 0o755);
    const paths = [
      join(folder, "agent.1"),
      join(directory, "docker.sock"),
      `\0/tmp/.X11-unix/X${display}`,
      `\0golem-abuse-${display}`,
      `\0/org/freedesktop/dbus-${display}`,
    ];
    for (const path of paths) await service(path, connections);
    // Another user's desktop may own the folder.
    const x11Socket = await service(join(x11, `X${display}`), connections).catch(() => undefined);
    open.push({ close: () => rmSync(folder, { recursive: true }) });
    if (isOurs) open.push({ close: () => rmdirSync(x11) });
    vi.stubEnv("SSH_AUTH_SOCK", paths[0]);
    vi.stubEnv("DOCKER_HOST", `unix://${paths[1]}`);
    vi.stubEnv("DISPLAY", `:${display}`);
    vi.stubEnv("XAUTHORITY", join(homedir(), ".Xauthority"));
    vi.stubEnv("DBUS_SESSION_BUS_ADDRESS", `unix:abstract=/org/freedesktop/dbus-${display}`);
    const usual = [
      "/var/run/docker.sock",
      "/run/docker.sock",
      "/run/containerd/containerd.sock",
      "/run/podman/podman.sock",
    ];
    const targets = [
      ...paths,
      ...(x11Socket ? [x11Socket] : []),
      ...usual,
      "/run/dbus/system_bus_socket",
      "/tmp/.X11-unix/X0",
    ];

    const { stdout } = await python([
      "import os, socket, stat",
      `for path in ${JSON.stringify(targets)}:`,
      "    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):",
      "        try: socket.socket(socket.AF_UNIX, kind).connect(path); print('reached', path)",
      "        except OSError: pass",
      `for port in (6000, 6000 + int('${display}') % 60000, 2375, 2376):`,
      "    try: socket.create_connection(('127.0.0.1', port), 1); print('reached', port)",
      "    except OSError: pass",
      "for name in ('SSH_AUTH_SOCK', 'DOCKER_HOST', 'DISPLAY', 'XAUTHORITY', 'DBUS_SESSION_BUS_ADDRESS', 'XDG_RUNTIME_DIR'):",
      "    if name in os.environ: print('variable', name)",
      "for folder, _, names in os.walk('/'):",
      "    if folder.startswith(('/proc', '/usr')): continue",
      "    for name in names:",
      "        path = os.path.join(folder, name)",
      "        if os.path.lexists(path) and stat.S_ISSOCK(os.lstat(path).st_mode): print('sees', path)",
      "print('done')",
    ]);

    expect(stdout).toBe("done\n");
    expect(connections).toEqual([]);
  });

  test.skipIf(process.arch !== "x64")(
    "no system call of another architecture runs: x32 numbers, an i386 program",
    async () => {
      // ELF, 32 bit, one segment: exit(42) by int 0x80.
      const program = Buffer.alloc(84 + 12);
      program.write("7f454c4601010100", 0, "hex");
      for (const [value, at] of [
        [2, 16],
        [3, 18],
        [52, 40],
        [32, 42],
        [1, 44],
      ] as const)
        program.writeUInt16LE(value, at);
      for (const [value, at] of [
        [1, 20],
        [0x08048054, 24],
        [52, 28],
        [1, 52],
        [0x08048000, 60],
        [0x08048000, 64],
        [96, 68],
        [96, 72],
        [5, 76],
        [4096, 80],
      ] as const)
        program.writeUInt32LE(value, at);
      program.write("b801000000bb2a000000cd80", 84, "hex");

      const { stdout } = await python([
        "import ctypes, errno, os, subprocess",
        "libc = ctypes.CDLL(None, use_errno=True)",
        // getpid, mount, bpf, unshare, and the numbers only x32 has: execve, ptrace, process_vm_readv.
        "for number in (39, 165, 321, 272, 520, 521, 539):",
        "    result = libc.syscall(0x40000000 + number, 0, 0, 0, 0, 0)",
        "    if result != -1 or ctypes.get_errno() != errno.ENOSYS: print('x32', number, result, ctypes.get_errno())",
        `open('/tmp/i386', 'wb').write(bytes.fromhex('${program.toString("hex")}'))`,
        "os.chmod('/tmp/i386', 0o755)",
        "try: code = subprocess.run(['/tmp/i386']).returncode",
        // A kernel that cannot run these programs is just as safe.
        "except OSError as error: code = -31 if error.errno == errno.ENOEXEC else error",
        "print('ended by', code)",
      ]);

      expect(stdout).toBe("ended by -31\n");
    },
  );
});

describe.skipIf(!availability.available)("changes from the OS sandbox", () => {
  test("changes include nothing from outside, while a folder is replaced by a link a thousand times a second", async () => {
    const outside = join(directory, "outside");
    mkdirSync(outside);
    writeFileSync(join(outside, "a.ts"), "a secret of this machine");

    const { changes, exitCode } = await sh(
      `(setsid bash -c 'while true; do mv src was; ln -s ${outside} src; rm src; mv was src; done' >/dev/null 2>&1 &); echo changed > src/a.ts; sleep 0.2`,
    );

    const came = changes.written.map(({ path, content }) => `${path}: ${Buffer.from(content)}`).join("\n");
    expect([0, 1]).toContain(exitCode);
    expect(came).not.toContain("a secret of this machine");
  });

  test("changes are dropped when there are too many to review, and the next command starts from the tree", async () => {
    const place = await session();
    const many = await python(["import os", "os.mkdir('m')", "for at in range(102): os.mknod(f'm/{at}')"], {}, place);

    const next = await sh("ls; cat README.md", {}, place);

    expect(many.changes.written).toEqual([]);
    expect(many.changes.rejected).toEqual([
      { path: "the tree", reason: expect.stringContaining("none of this command's changes were applied") },
    ]);
    expect(next.stdout).toBe("README.md\nsrc\n# Sums\n");
  });

  test("changes include no huge sparse file, no name with NUL, no path of 5,000 bytes, no unreadable file, and one of two equivalent names", async () => {
    const { stdout, changes } = await python([
      "import ctypes, os",
      "try: open('nul\\0name', 'w')",
      "except ValueError: print('no NUL')",
      "ctypes.CDLL(None).creat(b'cut\\0off', 0o644)",
      "try: os.truncate(os.open('sparse', os.O_CREAT | os.O_WRONLY), 2 ** 40); print('a terabyte')",
      "except OSError: print('no terabyte')",
      "os.remove('sparse'); os.truncate(os.open('holes', os.O_CREAT | os.O_WRONLY), 400 * 1024 * 1024)",
      "open('caf\\u00e9', 'w').write('1'); open('cafe\\u0301', 'w').write('2')",
      "open('closed', 'w').write('x'); os.chmod('closed', 0)",
      "for name in ('.GIT', 'git~1', '.GITMODULES', '.git ', 'x\\\\.git'): open(name, 'w').close()",
      "for at in range(25): os.mkdir('d' * 200); os.chdir('d' * 200)",
      "open('deep', 'w').write('x')",
    ]);

    expect(stdout).toBe("no NUL\nno terabyte\n");
    const reasons = Object.fromEntries(changes.rejected.map(({ path, reason }) => [path, reason]));
    expect(changes.written.map(({ path }) => path.normalize("NFC")).sort()).toEqual(["café", "cut"]);
    expect(reasons).toMatchObject({
      holes: "is larger than 10 MB",
      closed: "is a file without read permission",
      ".GIT": "is in .git",
      "git~1": "is in .git",
      ".git ": "is in .git",
      "x\\.git": "is in .git",
      ".GITMODULES": "would change the submodules",
    });
    expect(Object.values(reasons)).toContain("has the same name as another file, in another spelling");
  });
});
