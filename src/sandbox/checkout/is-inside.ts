import { isAbsolute, relative } from "node:path";

/** True for a folder of this machine and everything below it. Does not follow links. A first name that begins with `..` is outside. */
export function isInside(path: string, folder: string): boolean {
  const steps = relative(folder, path);
  return !steps.startsWith("..") && !isAbsolute(steps);
}
