import { readFileSync } from "node:fs";

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
