// A named import would fail in Node 20 before the program can say that it needs a newer one.
import module from "node:module";
import { homedir } from "node:os";
import { join } from "node:path";

/**
 * Caches the compiled code of modules imported from now on, since compiling takes half of the startup time. The cache is in
 * the user's own folder, because other users could put code into the temporary folder. Without such a folder, does nothing.
 */
export function cacheCompiledCode(): void {
  try {
    module.enableCompileCache(join(process.env.XDG_CACHE_HOME || join(homedir(), ".cache"), "golem-forge"));
  } catch {
    // The user has no home folder, or Node is too old. The program starts more slowly.
  }
}
