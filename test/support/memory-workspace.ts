import { createHash } from "node:crypto";
import { ToolError } from "#domain/errors.ts";
import type { Entry, Workspace, ZoneRule } from "#domain/workspace.ts";
import type { GitSandbox, LogEntry, PushRequest, StoredChange, StoredStep } from "#sandbox/sandbox.ts";

export interface MemoryWorkspaceOptions {
  /** The rules of the zones, by the first folder of a path. */
  rules?: Record<string, Partial<ZoneRule>>;
  commit?: string;
  log?: LogEntry[];
  /** False when the log has older commits that were not read. */
  isLogComplete?: boolean;
  push?: (request: PushRequest) => Promise<string>;
}

/** A sandbox of a few files, simple enough to be obviously correct. */
export function memoryWorkspace(
  files: Record<string, string | Uint8Array> = {},
  { rules = {}, commit = "a".repeat(40), log = [], isLogComplete = true, push }: MemoryWorkspaceOptions = {},
): GitSandbox & { text(path: string): string } {
  const bytes = (content: string | Uint8Array) => (typeof content === "string" ? Buffer.from(content) : content);
  const base = new Map(Object.entries(files).map(([path, content]) => [path, bytes(content)]));
  const tree = new Map(base);
  let settled = new Map(base);
  const steps: StoredStep[] = [];
  let openStep = "";

  function resolve(path: string): string {
    const parts = path.split("/").filter((part) => part !== "" && part !== ".");
    if (path.includes("\0") || parts.some((part) => part === ".." || part.toLowerCase() === ".git")) {
      throw new ToolError(`${path} is outside the repository.`, { code: "INVALID_PATH" });
    }
    return parts.join("/");
  }
  function missing(path: string): never {
    throw new ToolError(`${path} does not exist.`, { code: "FILE_NOT_FOUND" });
  }
  const isDirectory = (path: string) => path === "" || [...tree.keys()].some((file) => file.startsWith(`${path}/`));
  const below = (path: string) => [...tree.keys()].filter((file) => path === "" || file.startsWith(`${path}/`));

  function ruleFor(path: string): ZoneRule {
    const zone = resolve(path).split("/")[0] ?? "";
    const rule = rules[zone];
    return { zone: rule ? zone : "", mode: "rw", write: undefined, delete: undefined, ...(rule ?? rules[""]) };
  }
  function writable(path: string): string {
    const resolved = resolve(path);
    if (ruleFor(resolved).mode === "ro") throw new ToolError(`${resolved} is read-only.`, { code: "READ_ONLY" });
    return resolved;
  }
  function entry(path: string): Entry {
    const content = tree.get(path);
    const type = content ? "file" : "directory";
    return { path, type, size: content?.length ?? 0, modified: new Date(0), executable: false };
  }
  function differences(before: Map<string, Uint8Array>): { before: StoredChange[]; after: StoredChange[] } {
    const paths = [...new Set([...before.keys(), ...tree.keys()])].sort();
    const changed = paths.filter((path) => before.get(path) !== tree.get(path));
    const stored = (from: Map<string, Uint8Array>) =>
      changed.map((path) => ({ path, content: from.get(path), mode: "100644" as const }));
    return { before: stored(before), after: stored(tree) };
  }

  const workspace: Workspace = {
    resolve,
    ruleFor,
    exists: async (path) => tree.has(resolve(path)) || isDirectory(resolve(path)),
    stat: async (path) => {
      const resolved = resolve(path);
      if (!tree.has(resolved) && !isDirectory(resolved)) missing(resolved);
      return entry(resolved);
    },
    read: async (path) => new TextDecoder().decode(await workspace.readBytes(path)),
    readBytes: async (path) => {
      const resolved = resolve(path);
      if (!tree.has(resolved) && isDirectory(resolved)) {
        throw new ToolError(`${resolved} is a directory.`, { code: "NOT_A_FILE" });
      }
      return tree.get(resolved) ?? missing(resolved);
    },
    write: async (path, content) => {
      tree.set(writable(path), bytes(content));
    },
    remove: async (path, { recursive = false } = {}) => {
      const resolved = writable(path);
      const gone = tree.has(resolved) ? [resolved] : recursive ? below(resolved) : [];
      if (gone.length === 0 && isDirectory(resolved)) {
        throw new ToolError(`${resolved} is a directory.`, { code: "NOT_A_FILE" });
      }
      if (gone.length === 0) missing(resolved);
      for (const file of gone) tree.delete(file);
      return gone.sort();
    },
    move: async (from, to, { overwrite = false } = {}) => {
      const [source, target] = [writable(from), writable(to)];
      if (tree.has(target) && !overwrite) throw new ToolError(`${target} exists.`, { code: "FILE_EXISTS" });
      const moved = tree.has(source) ? [source] : below(source);
      if (moved.length === 0) missing(source);
      for (const file of moved) {
        tree.set(`${target}${file.slice(source.length)}`, tree.get(file) ?? missing(file));
        tree.delete(file);
      }
    },
    checkMove: async (from, to, { overwrite = false } = {}) => {
      if ((await workspace.exists(to)) && (!overwrite || isDirectory(resolve(from)))) {
        throw new ToolError(`${to} exists.`, { code: "FILE_EXISTS" });
      }
    },
    list: async (path, { recursive = false } = {}) => {
      const root = resolve(path);
      if (tree.has(root)) throw new ToolError(`${root} is a file.`, { code: "NOT_A_DIRECTORY" });
      if (!isDirectory(root)) missing(root);
      const prefix = root === "" ? "" : `${root}/`;
      const paths = new Set<string>();
      for (const file of below(root)) {
        const parts = file.slice(prefix.length).split("/");
        const depth = recursive ? parts.length : 1;
        for (let length = 1; length <= depth; length++) paths.add(prefix + parts.slice(0, length).join("/"));
      }
      return [...paths].sort().map(entry);
    },
    paths: async () => [...tree.keys()].sort(),
    changes: async () =>
      differences(base).after.map(({ path, content }) => ({
        path,
        status: content === undefined ? "deleted" : base.has(path) ? "modified" : "added",
      })),
    readBase: async (path) => base.get(resolve(path)),
  };

  const versionsAt = (path: string) => {
    const version = (content: Uint8Array | undefined) => content && { content, executable: false };
    return { path, before: version(base.get(path)), after: version(tree.get(path)) };
  };

  return {
    ...workspace,
    base: { commit, branch: "main" },
    restricted: () => workspace,
    pendingChanges: (step) => {
      openStep = step;
      const { after } = differences(settled);
      return after.length > 0 ? { step, changes: after } : undefined;
    },
    markStored() {
      const { before, after } = differences(settled);
      if (after.length > 0) steps.push({ step: openStep, before, after });
      openStep = "";
      settled = new Map(tree);
    },
    rollback() {
      tree.clear();
      for (const [path, content] of settled) tree.set(path, content);
    },
    history: async () => steps,
    log: async ({ limit }) => ({ commits: log.slice(0, limit), isComplete: isLogComplete }),
    blame: unsupported,
    show: unsupported,
    readAt: unsupported,
    branches: unsupported,
    mergeBranch: unsupported,
    previewMerge: unsupported,
    previewRestore: unsupported,
    restore: unsupported,
    changedFiles: async () => differences(base).after.map(({ path }) => versionsAt(path)),
    allChanges: async () => differences(base).after.map(({ path }) => versionsAt(path)),
    outgoing: async () => differences(base).after.map(({ path }) => versionsAt(path)),
    planPush: async () => ({
      tree: createHash("sha1")
        .update(JSON.stringify([...tree]))
        .digest("hex"),
      files: differences(base).after.map(({ path }) => versionsAt(path)),
    }),
    diffAgainstBase: unsupported,
    stage: unsupported,
    unstage: unsupported,
    discard: unsupported,
    staged: async () => ({ staged: [], unstaged: (await workspace.changes()).map(({ path }) => path) }),
    push: push ?? (() => Promise.reject(new Error("this test pushes nothing"))),
    text: (path) => Buffer.from(tree.get(resolve(path)) ?? missing(path)).toString("utf8"),
  };
}

const unsupported = () => Promise.reject(new Error("a memory workspace knows no git: open a real sandbox"));
