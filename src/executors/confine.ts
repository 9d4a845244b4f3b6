import crypto from "node:crypto";
import module, { isBuiltin, registerHooks } from "node:module";
import os from "node:os";
import process from "node:process";
import v8 from "node:v8";
import { packageFolders, sourceFolder } from "./own-files.ts";

/** The Node modules that untrusted code may import. They only compute values and reach nothing outside the process. */
const pure = new Set([
  ...["assert", "assert/strict", "buffer", "console", "constants", "crypto", "events", "path", "path/posix"],
  ...["path/win32", "perf_hooks", "punycode", "querystring", "stream", "stream/consumers", "stream/promises"],
  ...["stream/web", "string_decoder", "timers", "timers/promises", "url", "util", "util/types", "zlib"],
]);

/** Further modules for trusted code only. Node's permission model limits what they can reach. */
const guarded = new Set([
  ...["async_hooks", "child_process", "diagnostics_channel", "dgram", "dns", "dns/promises", "fs", "fs/promises"],
  ...["http", "http2", "https", "module", "net", "os", "process", "readline", "readline/promises", "tls", "tty"],
  ...["v8", "vm", "worker_threads"],
]);

/** The names under which other programs import this package. */
const ownNames = new Map(
  ["@golem-forge/core", "@golem-forge/cli", "@anthropic/golem-forge"].map((name) => [name, "golem-forge/compat"]),
);

/** This program's own modules and its packages. */
const trusted = [sourceFolder, ...packageFolders];

/**
 * Restricts what untrusted code in this process can use. Node's permission model covers files, network, processes and
 * threads, but not SQLite's own files, signals to and priorities of other processes, the user id, and V8's flags (Node
 * 26). This removes those. Afterwards untrusted modules can use only the `pure` modules, and trusted modules only what
 * the permission model allows. `refusal` is the reason in the error for any other import.
 */
export function confine(refusal: string): void {
  const checkBuiltin = <T extends { url: string }>(specifier: string, own: boolean, resolved: T): T => {
    if (!resolved.url.startsWith("node:")) return resolved;
    const name = resolved.url.slice("node:".length);
    if (pure.has(name) || (own && guarded.has(name))) return resolved;
    throw new Error(`${specifier} cannot be imported here: ${refusal}`);
  };
  const isTrusted = (url: string | undefined) => trusted.some((folder) => url?.startsWith(folder.href));

  registerHooks({
    resolve(specifier, context, next) {
      const own = isTrusted(context.parentURL);
      if (isBuiltin(specifier)) return checkBuiltin(specifier, own, next(specifier, context));
      // Packages that a tool imports resolve to this program's packages, wherever the tool's module is.
      const isBare = !/^(?:[./]|[a-z][a-z+.-]*:)/i.test(specifier);
      const from = isBare && !own ? { ...context, parentURL: import.meta.url } : context;
      return checkBuiltin(specifier, own, next(ownNames.get(specifier) ?? specifier, from));
    },
    load(url, context, next) {
      // In a project whose package.json says "commonjs", TypeScript is still written with import and export.
      const isTypeScript = context.format === "commonjs-typescript";
      const loaded = next(url, isTypeScript ? { ...context, format: "module-typescript" } : context);
      if (!isTrusted(url) && loaded.format?.startsWith("commonjs")) {
        throw new Error(`${url} is a CommonJS module. Write import and export instead of require and module.exports.`);
      }
      return loaded;
    },
  });
  removeCapabilities();
}

function removeCapabilities(): void {
  const powers = ["kill", "_kill", "_debugProcess", "_debugEnd", "_startProfilerIdleNotifier", "getBuiltinModule"];
  powers.push("binding", "_linkedBinding", "dlopen", "execve", "setuid", "setgid", "seteuid", "setegid", "setgroups");
  powers.push("initgroups", "umask", "chdir", "abort", "report", "loadEnvFile", "openStdin");
  for (const power of powers) removeProperty(process, power);
  removeProperty(os, "setPriority");
  for (const power of ["setFlagsFromString", "setHeapSnapshotNearHeapLimit", "writeHeapSnapshot"])
    removeProperty(v8, power);
  removeProperty(crypto, "setEngine");
  for (const power of ["registerHooks", "register", "syncBuiltinESMExports"]) removeProperty(module, power);

  // Named imports still refer to the original functions, so the removals have to be synced to them.
  syncNames();
  Object.defineProperty(globalThis, "process", { value: inertProcess(), configurable: false, writable: false });
}

const syncNames = module.syncBuiltinESMExports;

function removeProperty(owner: object, power: string): void {
  Reflect.deleteProperty(owner, power);
}

/** Returns a `process` with the harmless members that packages expect. */
function inertProcess(): object {
  const { version, versions, platform, arch, release, features, nextTick, hrtime, uptime, memoryUsage } = process;
  const deaf = () => facade;
  const facade = {
    ...{ version, versions, platform, arch, release, features, nextTick, hrtime, uptime, memoryUsage },
    env: Object.freeze({}),
    argv: Object.freeze([]),
    execArgv: Object.freeze([]),
    cwd: () => "/",
    exit: () => {
      throw new Error("Code that runs here cannot end its process.");
    },
    emitWarning: () => {},
    ...{ on: deaf, once: deaf, off: deaf, addListener: deaf, removeListener: deaf, emit: () => false },
  };
  return facade;
}
