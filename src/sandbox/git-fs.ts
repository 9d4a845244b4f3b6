import { deflateSync, inflateSync } from "node:zlib";
import type { PromiseFsClient } from "isomorphic-git";
import type { GitObject } from "./git-objects.ts";
import type { ObjectStore } from "./object-store.ts";

/** The virtual git directory that isomorphic-git works in. */
export const gitdir = "/git";

/**
 * Presents an object store to isomorphic-git as a git directory of loose objects. `shallow` lists the commits whose
 * parents are missing.
 */
export function createGitFs(store: ObjectStore, shallow: readonly string[] = []): PromiseFsClient {
  const readObject = (path: string): Buffer | undefined => {
    const object = store.read(oidOf(path));
    if (!object) return undefined;
    const head = Buffer.from(`${object.type} ${object.data.length}\0`);
    return deflateSync(Buffer.concat([head, object.data]), { level: 1 });
  };
  const stat = async (path: string) => {
    const isDirectory = path === gitdir;
    if (!isDirectory && !store.has(oidOf(path))) throw notFoundError(path);
    return { isDirectory: () => isDirectory, isFile: () => !isDirectory, isSymbolicLink: () => false };
  };
  const refuse = async (path: string): Promise<never> => {
    throw notFoundError(path);
  };
  return {
    promises: {
      readFile: async (path: string, options?: unknown) => {
        const isShallow = path === `${gitdir}/shallow`;
        const found = isShallow ? Buffer.from(shallow.map((oid) => `${oid}\n`).join("")) : readObject(path);
        if (!found) throw notFoundError(path);
        return isText(options) ? found.toString("utf8") : found;
      },
      writeFile: async (path: string, data: Uint8Array) => {
        store.add(unwrap(inflateSync(data)));
        if (!store.has(oidOf(path))) throw new Error(`isomorphic-git wrote a file that is not an object: ${path}`);
      },
      readdir: async () => [],
      mkdir: async () => {},
      stat,
      lstat: stat,
      unlink: refuse,
      rmdir: refuse,
      readlink: refuse,
      symlink: refuse,
      chmod: refuse,
    },
  };
}

function oidOf(path: string): string {
  return /\/objects\/([0-9a-f]{2})\/([0-9a-f]{38})$/.exec(path)?.slice(1).join("") ?? "";
}

function unwrap(wrapped: Buffer): GitObject {
  const end = wrapped.indexOf(0);
  const type = wrapped.toString("latin1", 0, wrapped.indexOf(0x20)) as GitObject["type"];
  return { type, data: wrapped.subarray(end + 1) };
}

function isText(options: unknown): boolean {
  if (typeof options === "string") return true;
  return typeof options === "object" && options !== null && "encoding" in options && options.encoding === "utf8";
}

function notFoundError(path: string): NodeJS.ErrnoException {
  return Object.assign(new Error(`ENOENT: no such file, ${path}`), { code: "ENOENT" });
}
