/** One entry of the tree. Paths are relative to the root, with `/` between, and never start with one. */
export interface Entry {
  path: string;
  type: "file" | "directory" | "symlink" | "submodule";
  /** Bytes; 0 for directories. */
  size: number;
  /** When the content last changed in this run, or the base commit's time. */
  modified: Date;
  executable: boolean;
}

/** A change against the base commit. */
export interface Change {
  path: string;
  status: "added" | "modified" | "deleted";
}

/** Whether an operation on a path is possible and consented to, by the zones of the worker. */
export interface ZoneRule {
  /** The zone's name, `""` for the repository itself. */
  zone: string;
  mode: "ro" | "rw";
  write: "preApproved" | "ask" | "blocked" | undefined;
  delete: "preApproved" | "ask" | "blocked" | undefined;
}

/**
 * The files a tool sees: one repository at one base commit with the run's changes over it, all in memory.
 *
 * Every path is checked here, whatever the caller did: outside the root, `.git` in any spelling, NUL bytes and links
 * that leave the tree are refused with a ToolError `INVALID_PATH`; writes to what is read-only with `READ_ONLY`;
 * a path that is not there with `FILE_NOT_FOUND`. Paths may start with `/`, which means the root.
 */
export interface Workspace {
  /** The path as the tree knows it, or a ToolError `INVALID_PATH`. */
  resolve(path: string): string;
  exists(path: string): Promise<boolean>;
  stat(path: string): Promise<Entry>;
  read(path: string): Promise<Uint8Array>;
  /** Creates parent directories as needed. Keeps the executable bit of a file that was there. */
  write(path: string, content: Uint8Array | string, options?: { executable?: boolean }): Promise<void>;
  /** Deletes a file, or with `recursive` a directory. Resolves to the files that are gone. */
  remove(path: string, options?: { recursive?: boolean }): Promise<string[]>;
  move(from: string, to: string, options?: { overwrite?: boolean }): Promise<void>;
  /** The direct entries of a directory, or everything below it, sorted by path. */
  list(path: string, options?: { recursive?: boolean }): Promise<Entry[]>;
  /** Every file path of the tree and of the zones, sorted: cheap, for glob and grep. */
  paths(): Promise<string[]>;
  /** What differs from the base commit, sorted by path: costs the number of changes, not the size of the tree. */
  changes(): Promise<Change[]>;
  /** The content at the base commit; undefined where it has none. */
  readBase(path: string): Promise<Uint8Array | undefined>;
  /** What the worker's zones say of a path. */
  ruleFor(path: string): ZoneRule;
}
