/** An entry of the tree. Paths are relative to the root, separated by `/`, without a leading slash. */
export interface Entry {
  path: string;
  type: "file" | "directory" | "symlink" | "submodule";
  /** Bytes; 0 for directories. */
  size: number;
  /** The time of the last change in this run, or the time of the base commit. */
  modified: Date;
  /** Of a link: whether its target is. */
  executable: boolean;
}

/** A changed file, compared with the base commit. */
export interface Change {
  path: string;
  status: "added" | "modified" | "deleted";
}

/** The rules that the worker's zones set for a path. */
export interface ZoneRule {
  /** The zone's name; `""` outside all zones. */
  zone: string;
  mode: "ro" | "rw";
  write: "preApproved" | "ask" | "blocked" | undefined;
  delete: "preApproved" | "ask" | "blocked" | undefined;
}

/** The contents of files in one piece of memory, which must not be written to. */
export interface ContentChunk {
  bytes: Uint8Array;
  /** In the order of their contents, with at least one line break between two. Equal files may share one content. */
  files: readonly { path: string; start: number; end: number }[];
}

/**
 * The files that tools work on: a repository at its base commit with the changes of the run, in memory.
 *
 * Every path is validated here. Paths outside the root, `.git` in any spelling, NUL bytes and links that leave the tree
 * are refused with a ToolError `INVALID_PATH`, writes to read-only files with `READ_ONLY`, and missing files with
 * `FILE_NOT_FOUND`. A leading `/` stands for the root.
 */
export interface Workspace {
  /** Normalizes a path. Throws a ToolError `INVALID_PATH`. */
  resolve(path: string): string;
  exists(path: string): Promise<boolean>;
  stat(path: string): Promise<Entry>;
  /** Reads a file as UTF-8 text, without its byte order mark. */
  read(path: string): Promise<string>;
  readBytes(path: string): Promise<Uint8Array>;
  /** Creates parent directories as needed. Keeps the executable bit of an existing file. */
  write(path: string, content: Uint8Array | string, options?: { executable?: boolean }): Promise<void>;
  /** Deletes a file, or with `recursive` a directory. Resolves to the paths of the deleted files. */
  remove(path: string, options?: { recursive?: boolean }): Promise<string[]>;
  move(from: string, to: string, options?: { overwrite?: boolean }): Promise<void>;
  /** Throws what `write` would throw for a content of this many bytes. Changes nothing. */
  checkWrite?(path: string, size: number): Promise<void>;
  /** Throws what `move` would throw. Changes nothing. */
  checkMove?(from: string, to: string, options?: { overwrite?: boolean }): Promise<void>;
  /** The entries of a directory, or with `recursive` everything below it, sorted by path. */
  list(path: string, options?: { recursive?: boolean }): Promise<Entry[]>;
  /** The paths of all files, zones included, sorted. Cheap enough for glob and grep. */
  paths(): Promise<string[]>;
  /** Reads many files at once and skips unreadable ones. Without it, search reads files one by one. */
  contents?(paths: readonly string[]): AsyncIterable<ContentChunk>;
  /** The changed files, sorted by path. The cost depends on the number of changes, not on the size of the tree. */
  changes(): Promise<Change[]>;
  /** The content at the base commit; undefined if the file did not exist. */
  readBase(path: string): Promise<Uint8Array | undefined>;
  /** The rules of the worker's zones for a path. */
  ruleFor(path: string): ZoneRule;
}

/** The `.git` of a repository at one commit, without history, for programs that read it. */
export interface GitFolder {
  /** The commit. Two folders of one commit have the same objects. */
  commit: string;
  /** The files of `.git` except the objects. */
  files(): Promise<{ path: string; content: Uint8Array }[]>;
  /** The objects as a pack, in pieces, and then the index of that pack. */
  pack(): AsyncGenerator<Uint8Array, Uint8Array>;
}
