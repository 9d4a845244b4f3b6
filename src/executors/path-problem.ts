const maxPathBytes = 4_096;
const maxNameBytes = 255;

// Characters HFS+ ignores in names, so that ".g\u200cit" is ".git" there.
const ignoredByHfs = /[\u200c-\u200f\u202a-\u202e\u206a-\u206f\ufeff]/g;

/**
 * Why a path that came out of a sandbox may not enter the tree, as the end of "because it …"; undefined when it may.
 * The workspace checks again: this is the wall before that wall, and it has no file system to be fooled by.
 */
export function pathProblem(path: string): string | undefined {
  if (path === "") return "has no name";
  if (Buffer.byteLength(path) > maxPathBytes) return "has a path that is too long";
  if (path.includes("\ufffd")) return "has a name that is not UTF-8";
  // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is looked for
  if (/[\u0000-\u001f\u007f]/.test(path)) return "has control characters in its name";
  if (path.startsWith("/")) return "lies outside the tree";

  for (const name of path.split("/")) {
    const problem = nameProblem(name);
    if (problem) return problem;
  }
  return isModulesFile(path) ? "would change the submodules" : undefined;
}

function nameProblem(name: string): string | undefined {
  if (name === "" || name === "." || name === "..") return "lies outside the tree";
  if (Buffer.byteLength(name) > maxNameBytes) return "has a name that is too long";
  return isGitDirectory(name) ? "lies in .git" : undefined;
}

function isGitDirectory(name: string): boolean {
  return spellings(name).some((part) => part === ".git" || /^git~\d+$/.test(part));
}

/** The short names are those of NTFS; git itself looks for the second kind of them. */
function isModulesFile(path: string): boolean {
  return spellings(path).some((part) => part === ".gitmodules" || /^(gitmod|gi7eba)~\d+$/.test(part));
}

/** A name as any file system may read it: case, trailing dots and spaces, streams, ignored characters. */
function spellings(name: string): string[] {
  const plain = name.replace(ignoredByHfs, "").normalize("NFKC").toLowerCase();
  return plain.split("\\").map((part) => (part.split(":")[0] ?? "").replace(/[. ]+$/, ""));
}
