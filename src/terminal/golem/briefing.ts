import { relative, sep } from "node:path";

interface Situation {
  root: string;
  cwd: string;
  isInteractive: boolean;
  repositoryInstructions: string | undefined;
}

/** Instructions for every worker about working in a checkout instead of a thread. */
export function briefing({ root, cwd, isInteractive, repositoryInstructions }: Situation): string {
  const folder = relative(root, cwd).split(sep).join("/");
  return [
    "You work in a git checkout on the machine of the person you work for. There is no issue and no pull request, even if your instructions mention them: the task is what the person writes. Do not try to do what you have no tools for.",
    "Your changes stay in memory. When you are done, the person reviews them and decides whether to write them to disk. Their uncommitted changes are part of the files you see: git_status and git_diff show your changes, git_uncommitted shows theirs.",
    ...(folder && !folder.startsWith("..") ? [`The person is in the folder ${folder}.`] : []),
    ...(isInteractive ? [] : ["You cannot ask anybody: decide yourself, and state your assumptions in your answer."]),
    ...(repositoryInstructions ? [`Instructions of this repository for every worker:\n${repositoryInstructions}`] : []),
    "When you are done, answer with a short summary: what you changed, what you checked, and what is left open.",
  ].join("\n");
}
