import { UserError } from "#domain/errors.ts";
import type { GuidanceFile } from "#domain/events.ts";
import type { GitHub } from "#domain/github.ts";
import type { RunSpec } from "#domain/run.ts";
import type { Workspace } from "#domain/workspace.ts";
import { estimateTokens } from "#text/estimate-tokens.ts";
import { cleanText } from "#text/untrusted.ts";

/** Guidance for contributors and agents at the root of a repository, in the order of precedence. */
const rootFiles = ["AGENTS.md", "CLAUDE.md", ".github/copilot-instructions.md", "CONTRIBUTING.md"];
const maxNestedFiles = 4;
/** The characters of a file that are read for each token of the budget: cleaning them takes linear time. */
const maxCharactersPerToken = 40;
// Starts only at the start of a word: otherwise the time would grow with the square of a long word's length.
const pathPattern = /(?<![\w.-])[\w.-]+(?:\/[\w.-]+)+/g;
export const defaultGuidanceTokens = 4_000;

type ReadText = (path: string) => Promise<string | undefined>;

/**
 * Reads the maintainers' guidance from the default branch: the files at the root, and the nearest AGENTS.md of the
 * paths in the task. Files that do not fit into the worker's `guidance_tokens` are cut or left out. A run on a pull
 * request has that branch's files in its sandbox, so it reads the guidance from GitHub.
 */
export async function readGuidance(
  { worker, origin }: RunSpec,
  { workspace, github, task }: { workspace: Workspace; github: GitHub; task: string },
): Promise<GuidanceFile[]> {
  let room = worker.guidance_tokens ?? defaultGuidanceTokens;
  if (room <= 0) return [];
  const read: ReadText = origin.isPullRequest
    ? (path) => readFromGitHub(github, path)
    : (path) => readText(workspace, path);
  const paths = [...rootFiles, ...(origin.isPullRequest ? [] : await nearestFiles(workspace, task))];
  const maxCharacters = room * maxCharactersPerToken;
  const texts = await Promise.all(
    paths.map(async (path) => ({
      path,
      text: cleanText(((await read(path)) ?? "").slice(0, maxCharacters)).text.trim(),
    })),
  );

  const files: GuidanceFile[] = [];
  // The same text may be in several files, since tools expect different names.
  for (const { path, text } of texts.filter(
    (one, index) => texts.findIndex(({ text }) => text === one.text) === index,
  )) {
    if (text === "" || room <= 0) continue;
    const size = estimateTokens(text);
    const kept = size <= room ? text : `${text.slice(0, Math.floor((text.length * room) / size))}\n(cut here)`;
    files.push({ path, text: kept });
    room -= size;
  }
  return files;
}

/** Reads guidance from GitHub; undefined if it is not a file. */
async function readFromGitHub(github: GitHub, path: string): Promise<string | undefined> {
  return github.readFile(path).catch((error) => {
    if (!(error instanceof UserError)) throw error;
    return undefined;
  });
}

async function readText(workspace: Workspace, path: string): Promise<string | undefined> {
  if (!(await workspace.exists(path).catch(() => false))) return undefined;
  const bytes = await workspace.readBytes(path).catch(() => undefined);
  return bytes && Buffer.from(bytes).toString("utf8");
}

/** Returns the AGENTS.md files in the folders of the paths that a text contains, nearest first. */
async function nearestFiles(workspace: Workspace, text: string): Promise<string[]> {
  const folders = new Set<string>();
  for (const [path] of text.slice(0, 20_000).matchAll(pathPattern)) {
    const names = path.split("/");
    for (let depth = names.length; depth > 0 && folders.size < 40; depth--)
      folders.add(names.slice(0, depth).join("/"));
  }
  const candidates = [...folders].sort((a, b) => b.length - a.length).map((folder) => `${folder}/AGENTS.md`);
  const found = await Promise.all(candidates.map((path) => workspace.exists(path).catch(() => false)));
  return candidates.filter((_, index) => found[index]).slice(0, maxNestedFiles);
}
