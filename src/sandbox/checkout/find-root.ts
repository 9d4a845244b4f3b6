import { realpath } from "node:fs/promises";
import { UserError } from "#domain/errors.ts";
import { GitError, runGit } from "./run-git.ts";

/** The top folder of the checkout a folder lies in, with links resolved. Rejects with a UserError where it lies in none. */
export async function findRoot(folder: string): Promise<string> {
  try {
    const said = await runGit(["rev-parse", "--show-toplevel"], { cwd: folder });
    return await realpath(said.toString("utf8").replace(/\n$/, ""));
  } catch (error) {
    if (!(error instanceof GitError) || !/not a git repository|must be run in a work tree/.test(error.message))
      throw error;
    throw new UserError(`${folder} lies in no git checkout: go to one, or make one with git init.`, { cause: error });
  }
}
