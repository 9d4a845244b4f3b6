import type { Change, GitFolder, Workspace } from "#domain/workspace.ts";

/** Where a command runs: the in-memory shell, this machine's OS sandbox, or somebody's remote one. */
export type Tier = "memory" | "os" | "remote";

/** The files a session works on. A toolset builds it from the workspace of its worker. */
export interface TreeSource extends Pick<Workspace, "resolve" | "paths" | "list" | "stat" | "readBytes" | "readBase"> {
  changes(): Promise<Change[]>;
  readonly head: { commit: string; branch: string };
  /** Commits of the base's history, newest first. */
  log(options: { limit: number; path?: string }): Promise<TreeCommit[]>;
  /** The `.git` for programs in the OS tier. */
  gitFolder?(): Promise<GitFolder | undefined>;
}

export interface TreeCommit {
  commit: string;
  message: string;
  author: string;
  email: string;
  date: Date;
}

export interface ExecRequest {
  /** Program and arguments. The in-memory shell knows one program: `["bash", "-c", script, ...args]`. */
  command: readonly string[];
  env?: Record<string, string>;
  /** Relative to the root of the tree. */
  cwd?: string;
  stdin?: string;
  timeoutMs: number;
  /** Bytes kept of each of stdout and stderr: head and tail, the middle is left out. */
  outputBytes: number;
  signal?: AbortSignal;
  /** Receives the output while the command runs. The in-memory shell sends it command by command. */
  onOutput?(stream: "stdout" | "stderr", chunk: string): void;
  /** Hosts this one command may reach on port 443, through a proxy. None unless given. */
  network?: readonly string[];
  /** Runs the command in an empty folder with an empty home in place of the tree. In the OS tier only. */
  isolated?: IsolatedFolder;
  /** The prepared dependencies that the command can read, by their key in the `SetupCache`. In the OS tier only. */
  setup?: string;
}

/** The folder of a command that has network: nothing of the tree or of earlier commands can run in it. */
export interface IsolatedFolder {
  /** The only files in it. */
  files: readonly GuestChange[];
  /** The files that are taken over if the command wrote them. */
  results: ReadonlySet<string>;
  /** Folders that are moved into the session if the command succeeds. */
  keep: {
    /** Relative to the tree. They replace those of the session. */
    tree: readonly string[];
    /** Relative to the home folder. `mergeDepth`: the levels below it that are merged with those of the session. */
    home: readonly { path: string; mergeDepth: number }[];
  };
  /** Keeps all dependencies: in the session, or under a key in the `SetupCache` and not in the session. */
  keepDependencies?: "session" | { key: string };
}

export interface GuestChange {
  path: string;
  content: Uint8Array;
  executable: boolean;
}

/** What a command did to the tree, after the validator. Nothing of it has reached the workspace yet. */
export interface TreeChanges {
  written: GuestChange[];
  deleted: string[];
  /** What will not be taken over, each with a reason that completes "because it …". */
  rejected: { path: string; reason: string }[];
  /** Files of ignored folders such as node_modules: they stay with the session and are never part of the work. */
  ignoredFiles: number;
}

export interface ExecResult {
  tier: Tier;
  /** Null when the command was killed. */
  exitCode: number | null;
  stdout: string;
  stderr: string;
  durationMs: number;
  timedOut: boolean;
  /** True when the middle of an output was left out. */
  truncated: boolean;
  /** Why the sandbox ended it, as a sentence: memory, disk, output. */
  stopped?: string;
  changes: TreeChanges;
}

/** One run's place to run commands in. Commands of one session run one after the other. */
export interface ExecSession {
  readonly tier: Tier;
  /**
   * Brings in what changed in the tree since the last command, runs the command, and reads what it changed.
   * Throws a ToolError `INTERRUPTED` when the signal is aborted; the whole process tree is dead by then.
   */
  exec(tree: TreeSource, request: ExecRequest): Promise<ExecResult>;
  /** Kills what runs and removes what was kept. May be called more than once. */
  close(): Promise<void>;
}

/** Whether a tier can be used here, and why not. */
export interface Availability {
  tier: Tier;
  available: boolean;
  /** One sentence for the log and for the model. */
  reason: string;
}

export interface SessionOptions {
  /** Further folders with programs, read-only. Their `bin` comes first in the PATH. In the OS tier only. */
  tools?: readonly string[];
}

export interface Executor {
  readonly tier: Tier;
  /** Asked once; never throws. */
  probe(): Promise<Availability>;
  open(options?: SessionOptions): Promise<ExecSession>;
  close(): Promise<void>;
}
