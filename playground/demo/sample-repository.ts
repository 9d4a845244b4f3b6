import { readFile } from "node:fs/promises";
import type { NewRepository } from "#playground/github/create-world.ts";
import type { CommitFiles } from "#playground/github/git/commit-files.ts";

const folder = new URL("./sample/", import.meta.url);

const history = [
  { message: "Add a README", day: "2025-03-03", paths: ["README.md", "package.json"] },
  { message: "Split a list into pages", day: "2025-03-04", paths: ["src/paginate.js"] },
  { message: "Test the first and the last page", day: "2025-03-05", paths: ["test/paginate.test.js"] },
];

/** Reads the demo's repository: a small library with a real bug and a failing test. */
export async function readSampleRepository(): Promise<NewRepository> {
  const commits = await Promise.all(history.map(readCommit));
  return { name: "paginate", description: "Splits a list into pages.", commits };
}

/** Reads the issue that reports the bug, written as by a user. */
export async function readSampleIssue(): Promise<{ title: string; body: string }> {
  const text = await readFile(new URL("issue.md", folder), "utf8");
  const [title = "", ...lines] = text.split("\n");
  return { title, body: lines.join("\n").trim() };
}

async function readCommit({ message, day, paths }: (typeof history)[number]): Promise<CommitFiles> {
  const contents = await Promise.all(paths.map((path) => readFile(new URL(`repository/${path}`, folder), "utf8")));
  const files = Object.fromEntries(paths.map((path, index) => [path, contents[index]]));
  return { branch: "main", message: `${message}\n`, author: "maintainer", at: new Date(`${day}T09:00:00Z`), files };
}
