import { spawn } from "node:child_process";
import { branches, gitEnvironment } from "./git-repository.ts";

export interface CommitFiles {
  branch: string;
  /** The branch a new one grows from; without it, it has a history of its own. */
  from?: string;
  message: string;
  author: string;
  at: Date;
  /** Path to content; undefined deletes. */
  files: Record<string, string | Uint8Array | undefined>;
}

/** Adds commits to a bare repository, each on top of its branch. The same input gives the same hashes. */
export async function commitFiles(directory: string, commits: readonly CommitFiles[]): Promise<void> {
  const known = new Set((await branches(directory)).keys());
  const git = spawn("git", ["--git-dir", directory, "fast-import", "--quiet", "--force"], {
    env: gitEnvironment(),
    stdio: ["pipe", "ignore", "pipe"],
  });
  let complaint = "";
  git.stderr.on("data", (chunk) => {
    complaint += chunk;
  });
  const done = new Promise<void>((resolve, reject) => {
    git.on("error", reject);
    git.on("close", (code) => (code === 0 ? resolve() : reject(new Error(`git fast-import failed: ${complaint}`))));
  });
  const started = new Set<string>();
  for (const commit of commits) {
    const ref = `refs/heads/${commit.branch}`;
    const origin = `refs/heads/${commit.from}`;
    const parent = known.has(ref) ? ref : known.has(origin) ? origin : undefined;
    for (const part of describe(commit, ref, started.has(ref) ? undefined : parent)) git.stdin.write(part);
    started.add(ref);
  }
  git.stdin.end();
  await done;
}

function describe(commit: CommitFiles, ref: string, parent: string | undefined): (string | Uint8Array)[] {
  const seconds = Math.floor(commit.at.getTime() / 1000);
  const person = `${commit.author} <${commit.author}@users.noreply.github.invalid> ${seconds} +0000`;
  const parts: (string | Uint8Array)[] = [`commit ${ref}\nauthor ${person}\ncommitter ${person}\n`];
  parts.push(...data(commit.message));
  // Within one import fast-import knows the branch itself; `^0` reaches for what it was before.
  if (parent) parts.push(`from ${parent}^0\n`);
  for (const [path, content] of Object.entries(commit.files)) {
    const quoted = JSON.stringify(path);
    if (content === undefined) parts.push(`D ${quoted}\n`);
    else parts.push(`M 100644 inline ${quoted}\n`, ...data(content));
  }
  return parts;
}

function data(content: string | Uint8Array): (string | Uint8Array)[] {
  const bytes = typeof content === "string" ? Buffer.from(content) : content;
  return [`data ${bytes.length}\n`, bytes, "\n"];
}
