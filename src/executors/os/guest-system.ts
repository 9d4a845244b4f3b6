import { existsSync, lstatSync, readlinkSync } from "node:fs";
import { dirname, resolve, sep } from "node:path";
import { fileURLToPath } from "node:url";
import { packageFolder } from "#executors/own-files.ts";

// Not the whole of /usr: an image may keep an application, and its secrets, in /usr/src or /usr/local.
const usrFolders = ["bin", "sbin", "lib", "lib32", "lib64", "libexec", "share", "include"].flatMap((name) => [
  `/usr/${name}`,
  `/usr/local/${name}`,
]);
const moreFolders = [
  "/usr/local/go",
  "/usr/local/cargo",
  "/usr/local/rustup",
  "/etc/alternatives",
  "/etc/ssl",
  "/etc/java",
];
const rootFolders = ["/bin", "/sbin", "/lib", "/lib32", "/lib64"];
const guestNode = "/opt/node/bin";

/** The read-only part of what a guest sees: programs and libraries of this machine, and nothing of its users. */
export interface GuestSystem {
  /** Arguments of bubblewrap. */
  mounts: string[];
  path: string;
}

/** `toolPaths` are further folders with programs, such as a toolchain in /opt; their `bin` comes first in the PATH. */
export function guestSystem(toolPaths: readonly string[]): GuestSystem {
  const bound = [...usrFolders, ...moreFolders, ...toolPaths.map((path) => resolve(path))].filter((path) =>
    existsSync(path),
  );
  const mounts = bound.flatMap((path) => ["--ro-bind", path, path]);
  for (const path of rootFolders) {
    if (!existsSync(path)) continue;
    if (lstatSync(path).isSymbolicLink()) mounts.push("--symlink", readlinkSync(path), path);
    else mounts.push("--ro-bind", path, path);
  }
  const nodeFolder = dirname(process.execPath);
  if (!bound.some((path) => isInside(nodeFolder, path))) {
    mounts.push("--ro-bind", nodeFolder, guestNode);
    // npm lies beside it, and is found from there by a relative link.
    const npm = resolve(nodeFolder, "../lib/node_modules/npm");
    if (existsSync(npm)) mounts.push("--ro-bind", npm, "/opt/node/lib/node_modules/npm");
  }
  for (const path of secretFolders()) {
    if (bound.some((folder) => isInside(path, folder))) mounts.push("--tmpfs", path);
  }

  const tools = toolPaths.flatMap((path) => [resolve(path, "bin"), resolve(path)]);
  const path = [guestNode, ...tools, "/usr/local/go/bin", "/usr/local/cargo/bin", "/usr/local/bin", "/usr/bin", "/bin"];
  return { mounts, path: path.filter((folder) => folder === guestNode || existsSync(folder)).join(":") };
}

/** Where this program and its settings lie, should that be inside a folder the guest sees. */
function secretFolders(): string[] {
  return [...new Set([fileURLToPath(packageFolder).replace(/\/$/, ""), process.cwd()])];
}

function isInside(path: string, folder: string): boolean {
  return path === folder || path.startsWith(folder + sep);
}
