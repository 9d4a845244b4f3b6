import { type ChildProcessByStdio, spawn } from "node:child_process";
import type { Readable, Writable } from "node:stream";
import { fileURLToPath } from "node:url";

export interface GuardedProcess {
  /** The module it runs. */
  entry: URL;
  /** Memory for objects; buffers are not counted. */
  memoryMb: number;
  /** Files it may read besides this program's own modules. */
  readable?: readonly string[];
  /** Held by the kernel, where it can: megabytes of memory in all, and seconds of computing, also when nobody is left to stop it. */
  limits?: { dataMb: number; cpuSeconds: number };
}

const sources = fileURLToPath(new URL("../", import.meta.url));
const packages = fileURLToPath(new URL("../../node_modules", import.meta.url));
const manifest = fileURLToPath(new URL("../../package.json", import.meta.url));

/**
 * Starts a Node process under its permission model: no files but those, no processes, no threads, no environment; no
 * network where Node knows `--allow-net`. It speaks on standard input and output; what it says on standard error is lost.
 */
export function spawnGuarded({
  entry,
  memoryMb,
  readable = [],
  limits,
}: GuardedProcess): ChildProcessByStdio<Writable, Readable, null> {
  const command = [
    process.execPath,
    "--permission",
    ...[sources, packages, manifest, ...readable].map((path) => `--allow-fs-read=${path}`),
    `--max-old-space-size=${memoryMb}`,
    "--no-warnings",
    fileURLToPath(entry),
  ];
  const [program = "", ...args] = limits ? limited(command, limits) : command;
  return spawn(program, args, { env: {}, cwd: "/", stdio: ["pipe", "pipe", "ignore"] });
}

function limited(command: string[], { dataMb, cpuSeconds }: NonNullable<GuardedProcess["limits"]>): string[] {
  // Not every system holds every limit; what cannot be set is left out, and the other walls stand.
  const script = `ulimit -c 0; ulimit -d ${dataMb * 1_024}; ulimit -t ${cpuSeconds}; exec "$@"`;
  return ["/bin/sh", "-c", script, "sh", ...command];
}
