import { realpath } from "node:fs/promises";
import { UserError } from "#domain/errors.ts";
import { GitError, runGit } from "./run-git.ts";

/** Finds the root of the git checkout that contains a folder, with links resolved. Rejects with a UserError outside one. */
export async function findRoot(folder: string): Promise<string> {
  try {
    const output = await runGit(["rev-parse", "--show-toplevel"], { cwd: folder });
    return await realpath(output.toString("utf8").replace(/\n$/, ""));
  } catch (error) {
    if (!(error instanceof GitError) || !/not a git repository|must be run in a work tree/.test(error.message))
      throw error;
    throw new UserError(`${folder} is not in a git repository. Change to one, or create one with git init.`, {
      cause: error,
    });
  }
}
