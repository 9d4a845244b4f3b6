import { appendFile, cp, mkdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import type { GitRepository } from "../test/support/git-server.ts";
import { generateFiles } from "./generate-files.ts";
import type { SeparateGitServer } from "./git-server.ts";
import { runProgram } from "./run-program.ts";

/** A repository with several thousand files on a git server, whose branch `bench` can be moved by 20 commits. */
export interface LargeRepository {
  name: string;
  repository: GitRepository;
  /** Moves `bench` to its tip, or to 20 commits before it. */
  moveTo(commit: "tip" | "before"): Promise<void>;
  patterns: Record<"rare" | "common" | "expression" | "caseInsensitive" | "alternation" | "nothing", string>;
  /** A query for search_code, and a file whose history is long. */
  query: string;
  historyOf: string;
}

const movedCommits = 20;

/** Serves the repository in the folder that GOLEM_FORGE_BENCH_REPOSITORY names, or else a generated one. */
export function prepareLargeRepository(server: SeparateGitServer): Promise<LargeRepository> {
  const folder = process.env.GOLEM_FORGE_BENCH_REPOSITORY;
  return folder ? serveFolder(server, folder) : generate(server);
}

async function serveFolder(server: SeparateGitServer, folder: string): Promise<LargeRepository> {
  const git = (...args: string[]) => runProgram("git", args, { cwd: folder }).then((output) => output.trim());
  const source = await git("rev-parse", "--absolute-git-dir");
  const tip = await git("rev-parse", "HEAD");
  const before = await git("rev-parse", `HEAD~${movedCommits}`);
  const repository = await server.repository("bench/real");
  await mkdir(join(repository.path, "objects/info"), { recursive: true });
  await appendFile(join(repository.path, "objects/info/alternates"), `${source}/objects\n`);
  const more = await readFile(join(source, "objects/info/alternates"), "utf8").catch(() => "");
  await appendFile(join(repository.path, "objects/info/alternates"), more);
  // Keeps the refs of the original, since their number affects the time of a fetch.
  await cp(join(source, "packed-refs"), join(repository.path, "packed-refs")).catch(() => {});
  const [historyOf = "README.md"] = (await git("ls-tree", "--name-only", "HEAD"))
    .split("\n")
    .filter((name) => /^readme/i.test(name));
  return {
    name: `${await git("ls-tree", "-r", "--name-only", "HEAD").then((names) => names.split("\n").length)} files of ${folder}`,
    repository,
    moveTo: async (commit) => {
      await repository.git("update-ref", "refs/heads/bench", commit === "tip" ? tip : before);
    },
    patterns: {
      rare: "createTestServer",
      common: "import",
      expression: "function\\s+\\w+Stream\\(",
      caseInsensitive: "rate.?limit",
      alternation: "TODO|FIXME|HACK",
      nothing: "zzqqxxyy",
    },
    query: "parse user input",
    historyOf,
  };
}

async function generate(server: SeparateGitServer): Promise<LargeRepository> {
  const files = generateFiles(8_000, { linesEach: 130 });
  const paths = Object.keys(files);
  const repository = await server.repository("bench/large");
  const at = (index: number) => new Date(1_700_000_000_000 + index * 60_000);
  const before = await repository.commit({ branch: "bench", files, at: at(0) });
  let tip = before;
  for (let index = 0; index < movedCommits; index++) {
    const changed = paths.filter((_, file) => file % 613 === index).slice(0, 12);
    const contents = Object.fromEntries(changed.map((path) => [path, `${files[path]}// changed in ${index}\n`]));
    tip = await repository.commit({ branch: "bench", files: contents, at: at(index + 1), message: `Change ${index}` });
  }
  await repository.git("repack", "-adq");
  return {
    name: `${paths.length.toLocaleString("en-US")} generated files, ${Math.round(Object.values(files).join("").length / 1e6)} MB`,
    repository,
    moveTo: async (commit) => {
      await repository.git("update-ref", "refs/heads/bench", commit === "tip" ? tip : before);
    },
    patterns: {
      rare: "needle",
      common: "ledger",
      expression: "const\\s+\\w+_12[0-9] = .winter copper",
      caseInsensitive: "VIOLET.?_77",
      alternation: "needle|Generated|zebra",
      nothing: "zzqqxxyy",
    },
    query: "where is the violet engine",
    historyOf: paths.find((path) => path.includes("file-613")) ?? "README.md",
  };
}
