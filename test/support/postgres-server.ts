import { execFile, execFileSync, spawnSync } from "node:child_process";
import { existsSync, readdirSync } from "node:fs";
import { chown, mkdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { promisify } from "node:util";
import pg from "pg";
import { freePort } from "#playground/github/listen.ts";

export interface PostgresServer {
  /** Returns the address of a database of that name, over loopback. */
  url(database: string): string;
  pid: number;
}

const run = promisify(execFile);

/** The folder of PostgreSQL's programs; undefined if it is not installed. */
export const postgresPrograms = findPrograms();

/** The reason for skipping tests that need PostgreSQL. */
export const whyNoPostgres = "there is no PostgreSQL server on this machine (Debian: apt-get install postgresql)";

/** Debian installs each version in its own folder, outside of the PATH. */
function findPrograms(): string | undefined {
  const debian = "/usr/lib/postgresql";
  const versions = existsSync(debian) ? readdirSync(debian).sort((a, b) => Number(b) - Number(a)) : [];
  const folders = [...versions.map((version) => join(debian, version, "bin")), ...(process.env.PATH ?? "").split(":")];
  return folders.find((folder) => existsSync(join(folder, "initdb")) && existsSync(join(folder, "postgres")));
}

/**
 * Starts a server with its data in the folder, on a unix socket there and on a free port of 127.0.0.1. Resolves when it
 * answers. It outlives this process, so the caller has to stop it. Its data does not survive a system crash unless
 * `durable`.
 */
export async function startPostgresServer(folder: string, { durable = false } = {}): Promise<PostgresServer> {
  if (!postgresPrograms) throw new Error(whyNoPostgres);
  const owner = ownerOfServer();
  const port = await freePort();
  await mkdir(folder, { recursive: true, mode: 0o755 });
  if (owner) await chown(folder, owner.uid, owner.gid);
  await run(
    join(postgresPrograms, "initdb"),
    [
      "-D",
      join(folder, "data"),
      "-U",
      "golem",
      "-A",
      "trust",
      "-E",
      "UTF8",
      "--no-locale",
      "--no-sync",
      "--no-instructions",
    ],
    asOwner(folder),
  );
  return { url: urlAt(port), pid: await serve(folder, port, durable) };
}

/** Starts the server of this folder again at the same address, once the one that was told to stop has exited. */
export async function restartPostgresServer(folder: string, { url, pid }: PostgresServer): Promise<PostgresServer> {
  while (reaches(pid, 0)) await pause(20);
  return { url, pid: await serve(folder, Number(new URL(url("postgres")).port), false) };
}

const urlAt = (port: number) => (database: string) =>
  `postgres://golem:a-password-of-nobody@127.0.0.1:${port}/${database}`;

async function serve(folder: string, port: number, durable: boolean): Promise<number> {
  const settings = {
    port,
    listen_addresses: "127.0.0.1",
    unix_socket_directories: folder,
    max_connections: 200,
    shared_buffers: "32MB",
    autovacuum: durable ? "on" : "off",
    fsync: durable ? "on" : "off",
    full_page_writes: durable ? "on" : "off",
  };
  const log = join(folder, "server.log");
  const data = join(folder, "data");
  const given = Object.entries(settings).map(([name, value]) => `-c ${name}=${value}`);
  // pg_ctl detaches the server from this process: some tests kill all their child processes.
  const start = ["start", "-D", data, "-l", log, "-W", "-o", given.join(" ")];
  await run(join(postgresPrograms ?? "", "pg_ctl"), start, asOwner(folder));
  const pid = await pidOf(data);
  while (!(await answers(urlAt(port)("postgres")))) {
    if (!reaches(pid, 0)) throw new Error(`PostgreSQL did not start: ${await readFile(log, "utf8")}`);
    await pause(20);
  }
  return pid;
}

async function pidOf(data: string): Promise<number> {
  for (let tries = 0; tries < 500; tries += 1) {
    const [first = ""] = (await readFile(join(data, "postmaster.pid"), "utf8").catch(() => "")).split("\n");
    // The pid file may be that of a server that was killed.
    if (reaches(Number(first) || Number.NaN, 0)) return Number(first);
    await pause(20);
  }
  throw new Error("PostgreSQL did not say which process it is");
}

/** Stops a server immediately, as in a power failure, and waits until it has exited. Returns false if it was not running. */
export async function stopPostgresServer(pid: number): Promise<boolean> {
  if (!reaches(pid, "SIGQUIT")) return false;
  while (reaches(pid, 0)) await pause(20);
  return true;
}

function reaches(pid: number, signal: NodeJS.Signals | 0): boolean {
  try {
    return process.kill(pid, signal);
  } catch {
    return false;
  }
}

function asOwner(folder: string) {
  return { ...ownerOfServer(), cwd: folder, env: { PATH: process.env.PATH ?? "", LC_ALL: "C" } };
}

/** Returns the account for programs that refuse to run as root. */
export function runAs(): { uid?: number; gid?: number } {
  return ownerOfServer() ?? {};
}

/** PostgreSQL refuses to run as root. */
function ownerOfServer(): { uid: number; gid: number } | undefined {
  if (process.getuid?.() !== 0) return undefined;
  const [user] = ["postgres", "nobody"].filter((name) => spawnSync("id", [name]).status === 0);
  const idOf = (kind: "-u" | "-g") => Number(execFileSync("id", [kind, user ?? "nobody"], { encoding: "utf8" }));
  return { uid: idOf("-u"), gid: idOf("-g") };
}

async function answers(url: string): Promise<boolean> {
  const client = new pg.Client({ connectionString: url });
  client.on("error", () => undefined);
  try {
    await client.connect();
    await client.end();
    return true;
  } catch {
    return false;
  }
}
