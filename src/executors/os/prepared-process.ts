import { type ChildProcess, spawn } from "node:child_process";
import { closeSync, openSync, readFileSync } from "node:fs";
import type { Readable, Writable } from "node:stream";
import { launchFds } from "./bubblewrap.ts";
import type { ControlGroup } from "./control-group.ts";
import { startedAt } from "./process-tree.ts";

export interface PreparedProcessOptions {
  /** What every command's bubblewrap begins with. */
  args: readonly string[];
  /** A file with the seccomp program. */
  filter: string;
  user: SandboxUser;
  group: ControlGroup | undefined;
}

/** A folder that shows the files of `lower`, which are never written to, with changes that are kept in `upper`. */
export interface OverlayMount {
  lower: string;
  upper: string;
  /** An empty folder on the file system of `upper`. */
  work: string;
  target: string;
}

/** A process that waits outside the sandbox to become bubblewrap: started, limited and stripped before it is needed. */
export interface PreparedProcess {
  readonly child: ChildProcess;
  readonly group: ControlGroup | undefined;
  /** What bubblewrap says of the guest. */
  readonly info: Readable | undefined;
  /** False when somebody ended it while it waited. */
  readonly isWaiting: boolean;
  /** Resolves to the exit code when it and its output have ended. */
  readonly ended: Promise<number | null>;
  /** Becomes bubblewrap, with these further arguments, once it is in its control group. */
  start(args: readonly string[], stdin: string | undefined, overlays?: readonly OverlayMount[]): Promise<void>;
  /** Ends it, used or not, and whatever is left in its control group. May be called more than once. */
  discard(): Promise<void>;
}

/**
 * Closes every file descriptor but the named ones, which this process may have got from whoever started it, and waits
 * for its words: by then the process is in its control group. When no word comes, whoever would give them is gone.
 */
// bubblewrap 0.8 cannot mount overlays. Root of a namespace of its own can, and bubblewrap drops that again.
const mounter = [
  "count=$1; shift",
  'while ((count-- > 0)); do mount -t overlay overlay -o "$1" -- "$2" || exit 125; shift 2; done',
  'exec bwrap "$@"',
].join("\n");

const launcher = [
  "for fd in /proc/self/fd/*; do",
  `  fd=\${fd##*/}; if ((fd > ${launchFds.info})); then eval "exec $fd>&-"; fi`,
  "done",
  `mapfile -t -d '' words <&${launchFds.start}; exec ${launchFds.start}<&-`,
  // biome-ignore lint/suspicious/noTemplateCurlyInString: a script of bash
  "[[ ${words[0]} == no-input ]] && exec </dev/null",
  // biome-ignore lint/suspicious/noTemplateCurlyInString: a script of bash
  '[[ ${words[-1]} == go ]] || exit; count=${words[1]}; args=("$@" "${words[@]:2+2*count:${#words[@]}-3-2*count}")',
  // biome-ignore lint/suspicious/noTemplateCurlyInString: a script of bash
  '((count == 0)) && exec bwrap "${args[@]}"',
  `exec unshare --user --map-root-user --mount /bin/bash --norc --noprofile -c '${mounter}' bash "$count" "\${words[@]:2:2*count}" "\${args[@]}"`,
].join("\n");

/** Starting a process and moving it into a control group takes longer than the sandbox itself, so it is done ahead. */
export function prepareProcess({ args, filter, user, group }: PreparedProcessOptions): PreparedProcess {
  const program = openSync(filter, "r");
  const child = spawn("/bin/bash", ["--norc", "--noprofile", "-c", launcher, "bash", ...args], {
    env: { PATH: "/usr/local/bin:/usr/bin:/bin" },
    cwd: "/",
    detached: true,
    stdio: ["pipe", "pipe", "pipe", program, "pipe", "pipe"],
    ...user,
  });
  closeSync(program);
  const [, , , , start, info] = child.stdio as unknown as (Readable & Writable)[];
  const handles = [child, ...child.stdio] as { ref?(): void; unref?(): void }[];
  // Whoever waits must not keep this program from ending.
  for (const handle of handles) handle?.unref?.();
  child.stdin?.on("error", () => undefined);
  start?.on("error", () => undefined);

  let waits = true;
  const ended = Promise.withResolvers<number | null>();
  // Told to whoever lets it go.
  ended.promise.catch(() => undefined);
  child.on("error", (error) => {
    waits = false;
    ended.reject(error);
  });
  child.on("exit", () => {
    waits = false;
  });
  child.on("close", (code) => ended.resolve(code));
  const grouped = child.pid === undefined ? undefined : group?.add(child.pid);
  grouped?.catch(() => undefined);

  let discarded: Promise<void> | undefined;
  async function end(): Promise<void> {
    for (const handle of handles) handle?.ref?.();
    child.kill("SIGKILL");
    await ended.promise.catch(() => undefined);
    group?.remove();
  }

  return {
    child,
    group,
    info,
    get isWaiting() {
      // Its end may not have been told yet.
      return waits && child.pid !== undefined && startedAt(child.pid) !== undefined;
    },
    ended: ended.promise,
    async start(more, stdin, overlays = []) {
      waits = false;
      const mounts = overlays.flatMap(({ lower, upper, work, target }) => [
        `lowerdir=${lower},upperdir=${upper},workdir=${work},userxattr`,
        target,
      ]);
      const words = [stdin === undefined ? "no-input" : "input", `${overlays.length}`, ...mounts, ...more, "go"];
      if (words.some((word) => word.includes("\0"))) throw new Error("A command cannot have NUL in its words");
      for (const handle of handles) handle?.ref?.();
      await grouped;
      child.stdin?.end(stdin);
      start?.end(words.map((word) => `${word}\0`).join(""));
    },
    discard() {
      waits = false;
      discarded ??= end();
      return discarded;
    },
  };
}

/** Who the guest is to the kernel. Undefined: whoever this process is, which is not root. */
export type SandboxUser = { uid: number; gid: number } | undefined;

/** Far from what distributions and useradd give out. */
const defaultUid = 58_213;

/**
 * A guest started by root could write kernel settings, because files of /proc/sys ask for the owner and not for
 * capabilities. So root hands over to a uid nobody else has, and where that cannot be, there is no sandbox.
 */
export function sandboxUser(configured: number | undefined): { user: SandboxUser } | { problem: string } {
  if (process.getuid?.() !== 0) return { user: undefined };
  const uid = configured ?? defaultUid;
  if (!Number.isInteger(uid) || uid < 1_000 || uid >= 65_534) {
    return { problem: `the sandbox's uid must be between 1000 and 65533, and is ${uid}` };
  }
  if (belongsToAccount(uid))
    return { problem: `uid ${uid} belongs to a user of this machine: give the sandbox one of its own` };
  return { user: { uid, gid: uid } };
}

function belongsToAccount(uid: number): boolean {
  const users = readFileSync("/etc/passwd", "utf8").split("\n");
  // A name for it is fine; a home with files or a login shell is somebody's account.
  return users.some((line) => {
    const [, , id, , , , shell = ""] = line.split(":");
    return Number(id) === uid && id !== "" && !/(nologin|false)$/.test(shell.trim());
  });
}
