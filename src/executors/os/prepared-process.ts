import { type ChildProcess, spawn } from "node:child_process";
import { closeSync, openSync, readFileSync } from "node:fs";
import type { Readable, Writable } from "node:stream";
import { launchFds } from "./bubblewrap.ts";
import type { ControlGroup } from "./control-group.ts";
import { startedAt } from "./process-tree.ts";

export interface PreparedProcessOptions {
  /** The bubblewrap arguments that all commands share. */
  args: readonly string[];
  /** A file with the seccomp program. */
  filter: string;
  user: SandboxUser;
  group: ControlGroup | undefined;
}

/** A folder that shows the files of `lower`, which is never written to. Changes are stored in `upper`. */
export interface OverlayMount {
  lower: string;
  upper: string;
  /** An empty folder on the file system of `upper`. */
  work: string;
  target: string;
}

/** A process outside the sandbox that waits to become bubblewrap. It is started and put under its limits in advance. */
export interface PreparedProcess {
  readonly child: ChildProcess;
  readonly group: ControlGroup | undefined;
  /** The information about the sandbox that bubblewrap reports. */
  readonly info: Readable | undefined;
  /** False if the process ended while it waited. */
  readonly isWaiting: boolean;
  /** Resolves to the exit code when the process and its output have ended. */
  readonly ended: Promise<number | null>;
  /** Replaces the process with bubblewrap, with these additional arguments, once it is in its control group. */
  start(args: readonly string[], stdin: string | undefined, overlays?: readonly OverlayMount[]): Promise<void>;
  /** Kills the process, used or not, and all others in its control group. May be called more than once. */
  discard(): Promise<void>;
}

// bubblewrap 0.8 cannot mount overlays. Root in a separate user namespace can, and bubblewrap drops that privilege
// again.
const mounter = [
  "count=$1; shift",
  'while ((count-- > 0)); do mount -t overlay overlay -o "$1" -- "$2" || exit 125; shift 2; done',
  'exec bwrap "$@"',
].join("\n");

/**
 * The script of a prepared process. Closes the file descriptors above `launchFds`, which it may have inherited, and
 * waits for its arguments: when they arrive, it is in its control group. Exits if the sender ends without sending them.
 */
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

/** Starts a process in advance, since starting it and moving it into a control group takes longer than the sandbox itself. */
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
  // A waiting process must not keep this program alive.
  for (const handle of handles) handle?.unref?.();
  child.stdin?.on("error", () => undefined);
  start?.on("error", () => undefined);

  let waits = true;
  const ended = Promise.withResolvers<number | null>();
  // It may fail before anything awaits `ended`.
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
      // Node may not have emitted its exit event yet.
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

/** The user that commands run as. Undefined: the user of this process, which is not root. */
export type SandboxUser = { uid: number; gid: number } | undefined;

/** Outside the ranges that distributions and useradd assign. */
const defaultUid = 58_213;

/**
 * Chooses the user of the sandbox. As root, commands could write kernel settings, because files in /proc/sys check for
 * the owner and not for capabilities. So root switches to an unused uid, and without one there is no sandbox.
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
  // A name alone is fine. An entry with a login shell is an account.
  return users.some((line) => {
    const [, , id, , , , shell = ""] = line.split(":");
    return Number(id) === uid && id !== "" && !/(nologin|false)$/.test(shell.trim());
  });
}
