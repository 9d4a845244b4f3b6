import type { Experimental_SandboxSession } from "ai";
import type { ProposedChange } from "#executors/validate-changes.ts";

/** A sandbox session of the AI SDK, with an optional way to stop it. */
export type RemoteSandbox = Experimental_SandboxSession & { stop?(): PromiseLike<void> };

const maxKilobytes = 10_240;
const skipped = [".git", "node_modules", "__pycache__", ".venv"];
const find = `find . \\( ${skipped.map((name) => `-name ${name}`).join(" -o ")} \\) -prune -o`;
const survey = {
  files: `${find} -type f -size -${maxKilobytes + 1}k -exec sha1sum -z -- {} +`,
  programs: `${find} -type f -perm -u+x -print0`,
  large: `${find} -type f -size +${maxKilobytes}k -print0`,
  special: `${find} ! -type f ! -type d -print0`,
};

/** What differs in a remote sandbox from what was brought there, asked with the programs every Linux has. */
export async function remoteChanges(
  sandbox: RemoteSandbox,
  { known, digest }: { known: ReadonlySet<string>; digest(path: string): string | undefined },
): Promise<ProposedChange[]> {
  const [files, programs, large, special] = await Promise.all([
    list(sandbox, survey.files),
    list(sandbox, survey.programs),
    list(sandbox, survey.large),
    list(sandbox, survey.special),
  ]);
  const executable = new Set(programs.map(relative));
  const changes: ProposedChange[] = [
    ...large.map((path): ProposedChange => ({ kind: "special", path: relative(path), what: "file larger than 10 MB" })),
    ...special.map(
      (path): ProposedChange => ({ kind: "special", path: relative(path), what: "link, device, socket or pipe" }),
    ),
  ];
  const present = new Set(changes.map(({ path }) => path));
  for (const line of files) {
    // A digest, two characters that say how it was read, and the path.
    const path = relative(line.slice(42));
    present.add(path);
    if (digest(path) === line.slice(0, 40)) continue;
    // The size was asked by `find`; the validator looks at the content's own.
    changes.push({ kind: "file", path, size: 0, executable: executable.has(path), read: () => read(sandbox, path) });
  }
  for (const path of known) {
    if (!present.has(path) && !path.split("/").some((name) => skipped.includes(name)))
      changes.push({ kind: "gone", path });
  }
  return changes;
}

async function list(sandbox: RemoteSandbox, command: string): Promise<string[]> {
  const { stdout } = await sandbox.run({ command });
  return stdout.split("\0").filter((record) => record !== "");
}

async function read(sandbox: RemoteSandbox, path: string): Promise<Uint8Array> {
  const content = await sandbox.readBinaryFile({ path });
  if (!content) throw new Error(`${path} is gone from the remote sandbox`);
  return content;
}

function relative(path: string): string {
  return path.replace(/^\.\//, "");
}
