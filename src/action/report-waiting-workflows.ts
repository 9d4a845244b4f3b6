import { postComment } from "#bot/github/post-comment.ts";
import type { RepositoryApi } from "#bot/github/repository-api.ts";
import { inline } from "#bot/render/markdown.ts";
import type { GitHub, RepositoryRef } from "#domain/github.ts";
import type { Runs } from "#runtime/runs.ts";
import type { GitStore } from "#runtime/store/git/open-git-store.ts";

/** The maximum number of pull requests checked in one job. */
const maxPullRequests = 5;
const notePrefix = "workflows of #";

interface Options {
  api: RepositoryApi;
  github: GitHub;
  runs: Pick<Runs, "openPullRequests">;
  repository: RepositoryRef;
  notes: GitStore["notes"];
}

/**
 * Comments on pull requests with the workflows that wait for approval to run, once per commit. GitHub does not start
 * workflows automatically for commits pushed with a job's token.
 */
export async function reportWaitingWorkflows({ api, github, runs, repository, notes }: Options): Promise<void> {
  const pulls = await runs.openPullRequests(repository);
  const noteOf = (number: number) => `${notePrefix}${number}`;
  for (const note of notes.keys()) {
    if (note.startsWith(notePrefix) && !pulls.some((number) => noteOf(number) === note)) {
      notes.delete(note);
    }
  }
  for (const number of pulls.slice(-maxPullRequests)) {
    const pull = await github.getPullRequest(number);
    const note = noteOf(number);
    if (!pull || pull.state === "closed" || notes.get(note) === pull.head.commit) continue;
    const { workflow_runs: waiting } = await api.call("GET /repos/{owner}/{repo}/actions/runs", {
      head_sha: pull.head.commit,
      status: "action_required",
    });
    if (waiting.length === 0) continue;
    const names = [...new Set(waiting.map(({ name }) => inline(name ?? "a workflow")))].sort();
    const body = `### ⏸️ Checks wait for you\n\nGitHub does not start workflows by itself for a pull request of GitHub Actions. Someone with write access has to click **Approve and run** on this pull request. Until then these wait: ${names.map((name) => `**${name}**`).join(", ")}.`;
    await postComment(github, { thread: number, name: `workflows/${pull.head.commit}`, body });
    notes.set(note, pull.head.commit);
  }
}
