import { relative, sep } from "node:path";

interface Situation {
  root: string;
  cwd: string;
  isInteractive: boolean;
  /** Of the repository. */
  repositoryInstructions: string | undefined;
}

/** What every worker is told of the machine it works on. */
export function briefing({ root, cwd, isInteractive, repositoryInstructions }: Situation): string {
  const folder = relative(root, cwd).split(sep).join("/");
  return [
    "You work on a git checkout on the machine of the person who asks you. There is no issue and no pull request here, whatever else your instructions say of them: the task is what the person writes, and what tools you were not given is not yours to do.",
    "What you change stays in memory. When you are done the person looks at it and decides whether it is written to disk. What they had not committed before is part of the files as you see them; git_status and git_diff show what you changed, git_uncommitted what they had.",
    ...(folder && !folder.startsWith("..") ? [`The person is in the folder ${folder}.`] : []),
    ...(isInteractive
      ? []
      : ["Nobody can be asked anything: decide yourself, and say in your answer what you assumed."]),
    ...(repositoryInstructions ? [`What this repository tells every worker:\n${repositoryInstructions}`] : []),
    "When you are done, answer with a short summary: what you changed, what you checked, and what is left open.",
  ].join("\n");
}
