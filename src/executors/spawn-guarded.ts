import { type ChildProcessByStdio, type StdioOptions, spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { stripTypeScriptTypes } from "node:module";
import type { Readable, Writable } from "node:stream";
import { fileURLToPath } from "node:url";
import { manifestFile, packageFolders, sourceFolder } from "./own-files.ts";

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

const ownFiles = [sourceFolder, ...packageFolders, manifestFile].map((url) => fileURLToPath(url));

/** Where the child reads its modules from, before anything else; closed by the time they run. */
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
    ...[...ownFiles, ...readable].map((path) => `--allow-fs-read=${path}`),
    `--max-old-space-size=${memoryMb}`,
    "--no-warnings",
    `--import=data:text/javascript,${encodeURIComponent(takeModules)}`,
    fileURLToPath(entry),
  ];
  const [program = "", ...args] = limits ? limited(command, limits) : command;
  const stdio: StdioOptions = ["pipe", "pipe", "ignore", "pipe"];
  const child = spawn(program, args, { env: {}, cwd: "/", stdio }) as ChildProcessByStdio<Writable, Readable, null>;
  const modules = child.stdio[modulesFd] as Writable;
  // A child that is killed before it has read them is told of by its end.
  modules.on("error", () => undefined);
  modules.end(JSON.stringify(strippedModules(entry)));
  return child;
}

function limited(command: string[], { dataMb, cpuSeconds }: NonNullable<GuardedProcess["limits"]>): string[] {
  // Not every system holds every limit; what cannot be set is left out, and the other walls stand.
  const script = `ulimit -c 0; ulimit -d ${dataMb * 1_024}; ulimit -t ${cpuSeconds}; exec "$@"`;
  return ["/bin/sh", "-c", script, "sh", ...command];
}

/** The source of a module without its types, by the module's URL. */
export type StrippedModules = readonly (readonly [url: string, source: string])[];

const known = new Map<string, StrippedModules>();

/**
 * This program's own modules that an entry stands on, with their types taken out. Node takes them out itself, with a
 * compiler that costs each process 20 MB and as much time as everything else it does to start: so we do it once for all.
 * What is missing here Node still reads from its file.
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
    if (found.has(url.href) || !isOwnModule(url)) continue;
    const source = strippedSource(url);
    if (source === undefined) continue;
    found.set(url.href, source);
    waiting.push(...importsOf(source, url));
  }
  return [...found];
}

function isOwnModule({ href }: URL): boolean {
  return href.startsWith(sourceFolder.href) && href.endsWith(".ts");
}

function strippedSource(url: URL): string | undefined {
  const { emitWarning } = process;
  // Node calls the function experimental, on standard error; it is what Node itself runs this program by.
  process.emitWarning = () => {};
  try {
    return stripTypeScriptTypes(readFileSync(url, "utf8"));
  } catch {
    // Whoever imports it gets the reason from Node, in better words.
    return undefined;
  } finally {
    process.emitWarning = emitWarning;
  }
}

/** Types are out already, so what is left is imported when the program runs. */
function importsOf(source: string, from: URL): URL[] {
  const specifiers = source.matchAll(/\b(?:from|import)\s*\(?\s*"((?:\.{0,2}\/|#)[^"]+)"/g);
  return [...specifiers].map(([, specifier = ""]) =>
    specifier.startsWith("#") ? new URL(specifier.slice(1), sourceFolder) : new URL(specifier, from),
  );
}
