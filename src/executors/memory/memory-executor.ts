import { StringDecoder } from "node:string_decoder";
import { z } from "zod";
import { SerialQueue } from "#domain/async-work.ts";
import { ToolError } from "#domain/errors.ts";
import type {
  ExecRequest,
  ExecResult,
  ExecSession,
  Executor,
  GuestChange,
  TreeChanges,
  TreeSource,
} from "#executors/executor.ts";
import { ChildEndedError, GuardedChild } from "#executors/guarded-child.ts";
import { type OutputBudget, outputBudget } from "#executors/output-budget.ts";
import { type BaseFile, createTreeMirror } from "#executors/tree-mirror.ts";
import { type ProposedChange, validateChanges } from "#executors/validate-changes.ts";

/** Changes of the host to the files of a shell child. */
export interface FilesRequest {
  write: GuestChange[];
  remove: string[];
  /** Files whose contents the child asks for when a command reads them. */
  base: BaseFile[];
}

/** A request of the host to a shell child: apply these file changes, then run this script. */
export interface ShellRequest extends FilesRequest {
  script: string;
  args: string[];
  env: Record<string, string>;
  cwd: string;
  stdin: string;
  timeoutMs: number;
  outputBytes: number;
  head: { commit: string; branch: string };
}

export interface MemoryExecutorOptions {
  /** The number of shells to keep ready for the next sessions. */
  spares?: number;
}

/** The milliseconds a shell has to stop at its own deadline before it is killed. */
const killGraceMs = 250;
/** The milliseconds by which a timer of the shell may fire early: it is rounded, and so is the clock that it is set by. */
const earlyTimerMs = 2;
const prepareDelayMs = 20;
/** The time to copy the files of a tree that differ from its base, and the names of the others, on a busy machine. */
const maxCopyMs = 60_000;
/** More files are copied before the time of the command begins. Fewer take less than another message. */
const maxFilesWithCommand = 100;
const treeLimits = { files: 50_000, bytes: 96_000_000 };
/** The bytes after which an answer with contents ends. */
const maxAnswerBytes = 1_000_000;
/** The bytes at which the shell itself stops. How many of them are kept depends on the request's budget. */
const rawOutputBytes = 8_000_000;

const FileChange: z.ZodType<GuestChange> = z.object({
  path: z.string(),
  content: z.instanceof(Uint8Array),
  executable: z.boolean(),
});
const ShellReply = z.object({
  exitCode: z.number(),
  stdout: z.string(),
  stderr: z.string(),
  /** Files whose content or mode has changed. */
  written: z.array(FileChange),
  deleted: z.array(z.string()),
  /** Links and other special files, which are rejected. */
  special: z.array(z.string()),
});
export type ShellReply = z.infer<typeof ShellReply>;

const ShellOutput = z.object({ stream: z.enum(["stdout", "stderr"]), content: z.instanceof(Uint8Array) });
/** The questions that the child asks the host: contents of the base, and what its `git` shows. */
const ShellQuestion = z.union([
  z.object({ kind: z.literal("contents"), paths: z.array(z.string()).max(256) }),
  z.object({ kind: z.literal("changes") }),
  z.object({ kind: z.literal("base"), path: z.string() }),
  z.object({
    kind: z.literal("log"),
    limit: z.number().int().min(0).max(200),
    path: z.string().optional(),
    range: z.string().max(500).optional(),
  }),
  z.object({ kind: z.literal("show"), revision: z.string().max(500) }),
  z.object({ kind: z.literal("file"), revision: z.string().max(500), path: z.string() }),
]);
export type ShellQuestion = z.infer<typeof ShellQuestion>;

/** Runs bash scripts over a copy of the tree in a child process without access to anything else. */
export function createMemoryExecutor({ spares = 1 }: MemoryExecutorOptions = {}): Executor {
  const spare: GuardedChild[] = [];
  const open = new Set<ExecSession>();
  let closed = false;

  function start(): GuardedChild {
    return new GuardedChild({
      handler: new URL("./shell-child.ts", import.meta.url),
      memoryMb: 512,
      messageBytes: 256_000_000,
      cpuSeconds: 4 * 3_600,
    });
  }

  function take(): GuardedChild {
    if (closed) throw new ToolError("The shell is closed.", { code: "UNAVAILABLE" });
    let child = spare.shift();
    while (child && !child.alive) child = spare.shift();
    return child ?? start();
  }

  /** Starts spare shells after a command, when its result has been passed on: starting one takes longer than a command. */
  function prepareSoon(): void {
    if (spare.length >= spares) return;
    setTimeout(() => {
      while (!closed && spare.length < spares) spare.push(start());
    }, prepareDelayMs).unref();
  }

  return {
    tier: "memory",
    async probe() {
      const walls = process.allowedNodeEnvironmentFlags.has("--allow-net")
        ? "In-memory shell ready."
        : "In-memory shell ready, but this version of Node cannot deny its process the network: use Node 25 or later.";
      return { tier: "memory", available: true, reason: walls };
    },
    async open() {
      const session: ExecSession = new MemorySession({ take, prepareSoon, onClose: () => open.delete(session) });
      open.add(session);
      return session;
    },
    async close() {
      closed = true;
      for (const child of spare.splice(0)) child.kill();
      await Promise.all([...open].map((session) => session.close()));
    },
  };
}

/** The processes of an executor, for one of its sessions. */
interface Shells {
  take(): GuardedChild;
  prepareSoon(): void;
  onClose(): void;
}

/** A session that runs its commands one at a time in a child process. */
class MemorySession implements ExecSession {
  readonly tier = "memory";
  readonly #shells: Shells;
  readonly #mirror = createTreeMirror(treeLimits, { leavesBase: true });
  readonly #queue = new SerialQueue();
  #child: GuardedChild | undefined;
  #closed = false;

  constructor(shells: Shells) {
    this.#shells = shells;
  }

  exec(tree: TreeSource, request: ExecRequest): Promise<ExecResult> {
    return this.#queue.run(() => this.#run(tree, request)).finally(this.#shells.prepareSoon);
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#child?.kill();
    this.#shells.onClose();
  }

  async #run(tree: TreeSource, request: ExecRequest): Promise<ExecResult> {
    if (this.#closed) throw new ToolError("The shell is closed.", { code: "UNAVAILABLE" });
    const script = scriptOf(request);
    const child = this.#livingChild();
    const known = new Set(this.#mirror.paths);
    const delta = await this.#mirror.nextDelta(tree);
    for (const path of this.#mirror.paths) known.add(path);
    const isLarge = delta.write.length + delta.base.length > maxFilesWithCommand;
    let started = performance.now();
    const output = new CommandOutput(request);
    try {
      if (isLarge) {
        await child.call(delta satisfies FilesRequest, { killAfterMs: maxCopyMs, signal: request.signal });
        started = performance.now();
      }
      const answer = await child.call(
        {
          ...(isLarge ? { write: [], remove: [], base: [] } : delta),
          ...script,
          env: request.env ?? {},
          cwd: request.cwd ?? "",
          stdin: request.stdin ?? "",
          timeoutMs: request.timeoutMs,
          outputBytes: rawOutputBytes,
          head: tree.head,
        } satisfies ShellRequest,
        {
          killAfterMs: request.timeoutMs + killGraceMs,
          signal: request.signal,
          answer: (question) => answerQuestion(tree, question),
          onOutput: (part) => output.receive(part),
        },
      );
      const reply = ShellReply.parse(answer);
      const durationMs = performance.now() - started;
      output.add("stdout", Buffer.from(reply.stdout));
      output.add("stderr", Buffer.from(reply.stderr));
      const changes = await this.#changesOf(reply, known, tree);
      // Where the shell notices its deadline decides which of these it reports; a script may report the same, earlier.
      const isDeadline = reply.exitCode === 124 || /execution (?:deadline|aborted)/.test(output.stderr.text());
      const timedOut = isDeadline && durationMs >= request.timeoutMs - earlyTimerMs;
      return { ...output.result(), exitCode: timedOut ? null : reply.exitCode, durationMs, timedOut, changes };
    } catch (error) {
      child.kill();
      if (!(error instanceof ChildEndedError)) throw error;
      return { ...output.result(), ...resultOfEndedShell(error.reason, performance.now() - started) };
    }
  }

  #livingChild(): GuardedChild {
    if (!this.#child?.alive) {
      this.#child = this.#shells.take();
      this.#mirror.reset();
    }
    return this.#child;
  }

  async #changesOf(
    { written, deleted, special }: ShellReply,
    known: ReadonlySet<string>,
    tree: TreeSource,
  ): Promise<TreeChanges> {
    const { isIgnored } = this.#mirror;
    const proposed: ProposedChange[] = [
      ...written.map(({ path, content, executable }) => ({
        kind: "file" as const,
        path,
        size: content.length,
        executable,
        read: () => content,
      })),
      ...deleted.map((path) => ({ kind: "gone" as const, path })),
      ...special.map((path) => ({ kind: "special" as const, path, what: "link" })),
    ];
    const changes = await validateChanges(proposed, { resolve: (path) => tree.resolve(path), known, isIgnored });
    this.#mirror.markStale(proposed.map(({ path }) => path).filter((path) => known.has(path) || !isIgnored(path)));
    return changes;
  }
}

/** Returns the script of a command. Throws a ToolError for a command that this shell cannot run. */
function scriptOf({ command, network, isolated }: ExecRequest): Pick<ShellRequest, "script" | "args"> {
  const [program, flag, script, , ...args] = command;
  if (program !== "bash" || flag !== "-c" || script === undefined) {
    throw new ToolError(`The in-memory shell runs bash scripts, not ${program}.`, { code: "UNAVAILABLE" });
  }
  if (network?.length || isolated) {
    throw new ToolError("Commands have no network access in the in-memory shell.", { code: "UNAVAILABLE" });
  }
  return { script, args };
}

async function answerQuestion(tree: TreeSource, question: unknown): Promise<unknown> {
  const asked = ShellQuestion.parse(question) satisfies ShellQuestion;
  switch (asked.kind) {
    case "contents":
      return readContents(tree, asked.paths);
    case "changes":
      return tree.changes();
    case "base":
      return tree.readBase(tree.resolve(asked.path));
    case "log":
      return tree.log({
        limit: asked.limit,
        ...(asked.path ? { path: tree.resolve(asked.path) } : {}),
        ...(asked.range !== undefined && { range: asked.range }),
      });
    case "show":
      if (!tree.show) throw onlyHead(asked.revision);
      return tree.show(asked.revision);
    case "file":
      if (!tree.readAt) throw onlyHead(asked.revision);
      return tree.readAt(asked.revision, tree.resolve(asked.path));
  }
}

/** Returns the contents of the first of these files: of at least one, and of more up to the size of an answer. */
async function readContents(tree: TreeSource, paths: readonly string[]): Promise<(Uint8Array | undefined)[]> {
  const contents: (Uint8Array | undefined)[] = [];
  let bytes = 0;
  for (const path of paths) {
    const content = await tree.readBase(tree.resolve(path));
    contents.push(content);
    bytes += content?.length ?? 0;
    if (bytes > maxAnswerBytes) break;
  }
  return contents;
}

function onlyHead(revision: string): ToolError {
  return new ToolError(`only files of HEAD can be shown here, not "${revision}"`, { code: "UNAVAILABLE" });
}

/** Collects the output of a command while it runs. */
class CommandOutput {
  readonly stdout: OutputBudget;
  readonly stderr: OutputBudget;
  readonly #decoders = { stdout: new StringDecoder("utf8"), stderr: new StringDecoder("utf8") };
  readonly #onOutput: ExecRequest["onOutput"];

  constructor({ outputBytes, onOutput }: ExecRequest) {
    this.stdout = outputBudget(outputBytes);
    this.stderr = outputBudget(outputBytes);
    this.#onOutput = onOutput;
  }

  /** Handles a message from the shell. Throws if it is not output, or exceeds what a shell can send. */
  receive(message: unknown): void {
    const { stream, content } = ShellOutput.parse(message);
    this.add(stream, content);
    if (this.stdout.receivedBytes + this.stderr.receivedBytes > 2 * rawOutputBytes) throw new Error("Too much output");
  }

  add(stream: "stdout" | "stderr", content: Uint8Array): void {
    if (content.length === 0) return;
    this[stream].push(content);
    this.#onOutput?.(stream, this.#decoders[stream].write(Buffer.from(content)));
  }

  result(): Pick<ExecResult, "tier" | "stdout" | "stderr" | "truncated"> {
    const { stdout, stderr } = this;
    return {
      tier: "memory",
      stdout: stdout.text(),
      stderr: stderr.text(),
      truncated: stdout.truncated || stderr.truncated,
    };
  }
}

function resultOfEndedShell(
  reason: "deadline" | "died",
  durationMs: number,
): Omit<ExecResult, "tier" | "stdout" | "stderr" | "truncated"> {
  const timedOut = reason === "deadline";
  return {
    exitCode: null,
    durationMs,
    timedOut,
    ...(timedOut ? {} : { stopped: "The shell exceeded its memory limit and was stopped. Its changes are lost." }),
    changes: { written: [], deleted: [], rejected: [], ignoredFiles: 0 },
  };
}
