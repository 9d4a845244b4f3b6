import { type ChildProcessByStdio, type StdioOptions, spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { stripTypeScriptTypes } from "node:module";
import type { Readable, Writable } from "node:stream";
import { fileURLToPath } from "node:url";
import { manifestFile, packageFolders, sourceFolder } from "./own-files.ts";

export interface GuardedProcess {
  /** The module to run. */
  entry: URL;
  /** A module that the entry imports; it gets the address as its argument. */
  handler?: URL;
  /** The memory for objects, without buffers. */
  memoryMb: number;
  /** Files that the child may read in addition to this program's own modules. */
  readable?: readonly string[];
  /** Enforced by the kernel if possible, even if this process is gone: total memory in megabytes, and CPU seconds. */
  limits?: { dataMb: number; cpuSeconds: number };
}

const ownFiles = [sourceFolder, ...packageFolders, manifestFile].map((url) => fileURLToPath(url));

/** The descriptor from which the child reads its modules at startup. It is closed before they run. */
const modulesFd = 3;

const takeModules = `
import { closeSync, readFileSync } from "node:fs";
import { registerHooks } from "node:module";
const sources = new Map(JSON.parse(readFileSync(${modulesFd}, "utf8")));
closeSync(${modulesFd});
registerHooks({
  load(url, context, next) {
    const source = sources.get(url);
    sources.delete(url);
    return source === undefined ? next(url, context) : { format: "module", source, shortCircuit: true };
  },
});
`;

/**
 * Starts a Node process under its permission model: no files except the given ones, no processes, threads or
 * environment, and no network if Node supports `--allow-net`. It communicates over standard input and output; standard
 * error is discarded.
 */
export function spawnGuarded({
  entry,
  handler,
  memoryMb,
  readable = [],
  limits,
}: GuardedProcess): ChildProcessByStdio<Writable, Readable, null> {
  const command = [
    process.execPath,
    "--permission",
    ...[...ownFiles, ...readable].map((path) => `--allow-fs-read=${path}`),
    `--max-old-space-size=${memoryMb}`,
    "--no-warnings",
    `--import=data:text/javascript,${encodeURIComponent(takeModules)}`,
    fileURLToPath(entry),
    ...(handler ? [handler.href] : []),
  ];
  const [program = "", ...args] = limits ? limited(command, limits) : command;
  const stdio: StdioOptions = ["pipe", "pipe", "ignore", "pipe"];
  const child = spawn(program, args, { env: {}, cwd: "/", stdio }) as ChildProcessByStdio<Writable, Readable, null>;
  const modules = child.stdio[modulesFd] as Writable;
  // If the child is killed before it has read them, its exit reports that.
  modules.on("error", () => undefined);
  const sources = [...strippedModules(entry), ...(handler ? strippedModules(handler) : [])];
  modules.end(JSON.stringify(sources));
  return child;
}

function limited(command: string[], { dataMb, cpuSeconds }: NonNullable<GuardedProcess["limits"]>): string[] {
  // Limits that the system does not support are skipped, since they are only one layer of protection.
  const script = `ulimit -c 0; ulimit -d ${dataMb * 1_024}; ulimit -t ${cpuSeconds}; exec "$@"`;
  return ["/bin/sh", "-c", script, "sh", ...command];
}

/** The sources of modules without their types, by URL. */
export type StrippedModules = readonly (readonly [url: string, source: string])[];

const known = new Map<string, StrippedModules>();

/**
 * Returns the modules of this program that an entry imports, without their types. Node can strip types itself, but its
 * compiler costs each process 20 MB and doubles its startup time, so this is done once for all children. Node reads any
 * module that is missing here from its file.
 */
export function strippedModules(entry: URL): StrippedModules {
  let modules = known.get(entry.href);
  if (!modules) {
    modules = readModules(entry);
    known.set(entry.href, modules);
  }
  return modules;
}

function readModules(entry: URL): StrippedModules {
  const found = new Map<string, string>();
  const waiting = [entry];
  for (let url = waiting.pop(); url; url = waiting.pop()) {
    if (found.has(url.href) || !url.href.startsWith(sourceFolder.href) || !url.href.endsWith(".ts")) continue;
    const source = strippedSource(url);
    if (source === undefined) continue;
    found.set(url.href, source);
    waiting.push(...importsOf(source, url));
  }
  return [...found];
}

function strippedSource(url: URL): string | undefined {
  const { emitWarning } = process;
  // Node prints a warning that this function is experimental, although Node itself uses it to run this program.
  process.emitWarning = () => {};
  try {
    return stripTypeScriptTypes(readFileSync(url, "utf8"));
  } catch {
    // Node reports a better error when the module is imported.
    return undefined;
  } finally {
    process.emitWarning = emitWarning;
  }
}

/** Returns the imported modules. Type imports have already been removed. */
function importsOf(source: string, from: URL): URL[] {
  const specifiers = source.matchAll(/\b(?:from|import)\s*\(?\s*"((?:\.{0,2}\/|#)[^"]+)"/g);
  return [...specifiers].map(([, specifier = ""]) =>
    specifier.startsWith("#") ? new URL(specifier.slice(1), sourceFolder) : new URL(specifier, from),
  );
}
