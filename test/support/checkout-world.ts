import { execFileSync } from "node:child_process";
import {
  chmodSync,
  cpSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { onTestFinished } from "vitest";

const firstCommit = `
  git init -q -b main --template=
  printf '[user]\\n\\tname = Ada\\n\\temail = ada@example.com\\n[commit]\\n\\tgpgsign = false\\n' >> .git/config
  git add -A
  git commit -q -m "The first"
`;

/** Folders with the content of `.git`, by the files of the first commit. */
const initialized = new Map<string, string>();

/** Creates a repository with one commit of these files, which are already there. */
function initialize(root: string, files: Record<string, string | Buffer>): void {
  const key = JSON.stringify(files);
  const known = initialized.get(key);
  if (known !== undefined) {
    cpSync(known, join(root, ".git"), { recursive: true });
    return;
  }
  // One process: to start one from a large test process takes longer than what it does.
  execFileSync("sh", ["-e", "-c", firstCommit], { cwd: root, stdio: "pipe" });
  const folder = mkdtempSync(join(tmpdir(), "golem-checkout-git-"));
  cpSync(join(root, ".git"), folder, { recursive: true });
  initialized.set(key, folder);
}

/** Creates a git repository with one commit in a temporary folder that is deleted after the test. */
export function checkoutWorld(files: Record<string, string | Buffer>) {
  const parent = realpathSync(mkdtempSync(join(tmpdir(), "golem-checkout-")));
  onTestFinished(() => rmSync(parent, { recursive: true, force: true }));
  const root = join(parent, "repo");
  const at = (path: string) => join(root, path);
  const world = {
    /** The folder that contains the repository. */
    parent,
    root,
    at,
    git: (...args: string[]) => execFileSync("git", args, { cwd: root, encoding: "utf8", stdio: "pipe" }),
    write(path: string, content: string | Buffer, { executable = false } = {}) {
      mkdirSync(dirname(at(path)), { recursive: true });
      writeFileSync(at(path), content);
      chmodSync(at(path), executable ? 0o755 : 0o644);
    },
    read: (path: string) => readFileSync(at(path), "utf8"),
    exists: (path: string) => existsSync(at(path)),
    mode: (path: string) => lstatSync(at(path)).mode & 0o777,
    status: () => world.git("status", "--porcelain", "-uall"),
  };
  mkdirSync(root);
  for (const [path, content] of Object.entries(files)) world.write(path, content);
  initialize(root, files);
  return world;
}
