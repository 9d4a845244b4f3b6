import { randomUUID } from "node:crypto";
import type { AddressInfo } from "node:net";
import { createServer } from "node:net";
import { fileURLToPath } from "node:url";
import { z } from "zod";
import type { Launched } from "./launch.ts";

const EscapeReport = z.record(z.string(), z.boolean());

/** The checks by name, with the meaning of a failure. */
const meanings: Record<string, string> = {
  user: "the guest is root to the kernel",
  capabilities: "the guest has capabilities",
  privileges: "the guest can gain privileges",
  filter: "system calls are not filtered",
  settings: "kernel settings can be opened for writing",
  network: "the guest reaches this machine's network",
  interfaces: "the guest sees network interfaces",
  environment: "this program's environment is visible",
  outside: "files outside the sandbox can be written",
  program: "this program's own files are visible",
  namespaces: "the guest can make namespaces of its own",
  memory: "memory is not limited",
  processes: "other processes are visible",
  descriptors: "file descriptors of this program are open",
};

// Opens files for writing but never writes. It runs inside the sandbox, so it is JavaScript without dependencies.
const script = String.raw`
const fs = require("node:fs");
const net = require("node:net");
const { spawnSync } = require("node:child_process");
const [port, marker, program, descriptors] = process.argv.slice(1);
const text = (path) => { try { return fs.readFileSync(path, "utf8"); } catch { return ""; } };
const status = text("/proc/self/status");
const field = (name) => (new RegExp("^" + name + ":\\s*(\\S+)", "m").exec(status) || [])[1];
const opens = (path, flags) => { try { fs.closeSync(fs.openSync(path, flags)); return true; } catch { return false; } };
const settings = ["kernel/core_pattern", "vm/drop_caches", "vm/overcommit_memory", "kernel/modprobe"];
const report = {
  // A file of root's that looks like one's own: then oneself is root to the kernel, under another name.
  user: fs.statSync("/proc/sys/kernel/core_pattern").uid !== process.getuid(),
  capabilities: /^0+$/.test(field("CapEff") || "") && /^0+$/.test(field("CapPrm") || ""),
  privileges: field("NoNewPrivs") === "1",
  filter: field("Seccomp") === "2",
  settings: !settings.some((name) => opens("/proc/sys/" + name, "r+")) && !opens("/proc/sysrq-trigger", "r+"),
  interfaces: text("/proc/net/dev").trim().split("\n").slice(2).every((line) => line.trim().startsWith("lo:")),
  environment: !JSON.stringify(process.env).includes(marker) && !text("/proc/1/environ").includes(marker),
  outside: ["/canary", "/etc/canary", "/usr/bin/canary", "/dev/canary", "/opt/canary"].every((path) => !opens(path, "wx")),
  program: !fs.existsSync(program),
  namespaces: spawnSync("unshare", ["--user", "true"]).status !== 0,
  memory: /^Max data size\s+\d+/m.test(text("/proc/self/limits")),
  processes: fs.readdirSync("/proc").filter((name) => /^\d+$/.test(name)).length < 10,
  descriptors: descriptors.trim().split(" ").every((fd) => ["0", "1", "2"].includes(fd)),
};
const socket = net.connect({ port: Number(port), host: "127.0.0.1", timeout: 1000 });
const end = (reached) => { socket.destroy(); console.log(JSON.stringify({ ...report, network: !reached })); };
socket.on("connect", () => end(true));
socket.on("error", () => end(false));
socket.on("timeout", () => end(false));
`;

/** Tries to escape from inside the sandbox. Resolves to a sentence about the gaps it found; undefined if there are none. */
export async function runEscapeChecks(run: (command: string[]) => Promise<Launched>): Promise<string | undefined> {
  const server = createServer((socket) => socket.destroy()).listen(0, "127.0.0.1");
  await new Promise((resolve) => server.once("listening", resolve));
  const marker = `canary-${randomUUID()}`;
  process.env.GOLEM_FORGE_CANARY = marker;
  try {
    const program = fileURLToPath(import.meta.url);
    const { port } = server.address() as AddressInfo;
    // The shell itself opens the folder to list it, so only descriptors that still exist afterwards count.
    const inner =
      // biome-ignore lint/suspicious/noTemplateCurlyInString: a script of bash
      'open=; for fd in /proc/$$/fd/*; do [ -L "$fd" ] && open="$open ${fd##*/}"; done; exec node -e "$0" "$@" "$open"';
    const { stdout, stderr, exitCode } = await run(["bash", "-c", inner, script, String(port), marker, program]);

    const report = parseReport(stdout);
    if (exitCode !== 0 || !report) return `it does not start: ${firstLine(stderr) || `exit code ${exitCode}`}`;

    const failed = Object.keys(meanings).filter((name) => report[name] !== true);
    return failed.length > 0 ? `it does not hold: ${failed.map((name) => meanings[name]).join(", ")}` : undefined;
  } finally {
    delete process.env.GOLEM_FORGE_CANARY;
    server.close();
  }
}

function parseReport(stdout: string): Record<string, boolean> | undefined {
  try {
    return EscapeReport.parse(JSON.parse(stdout));
  } catch {
    return undefined;
  }
}

function firstLine(text: string): string {
  return text.trim().split("\n")[0] ?? "";
}
