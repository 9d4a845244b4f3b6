import { enableCompileCache } from "node:module";
import { homedir } from "node:os";
import { join } from "node:path";

/**
 * Keeps the compiled code of modules that are imported from now on, since compiling is half of a start. The cache is in the
 * user's own folder: in the one for temporary files others could put code of theirs. Without such a folder there is none.
 */
export function cacheCompiledCode(): void {
  try {
    enableCompileCache(join(process.env.XDG_CACHE_HOME || join(homedir(), ".cache"), "golem-forge"));
  } catch {
    // A user without a home: the program starts more slowly.
  }
}
