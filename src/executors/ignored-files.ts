import ignorePackage from "ignore";

// The types describe the module as CommonJS gives it, with the function under `default`.
const ignore = ignorePackage.default;

/** What tools leave behind in any repository, whether or not its .gitignore says so. */
const buildArtifacts = [
  "node_modules/",
  "__pycache__/",
  "*.pyc",
  ".pytest_cache/",
  ".mypy_cache/",
  ".ruff_cache/",
  ".venv/",
  ".cache/",
  ".nyc_output/",
  "*.tsbuildinfo",
];

/**
 * A function that says whether a path is ignored by the repository's own rules: such files stay in the session and are
 * never part of the work. `rules` are the .gitignore files of the tree, by path.
 */
export function ignoredFiles(rules: ReadonlyMap<string, string>): (path: string) => boolean {
  const everywhere = ignore().add(buildArtifacts);
  const perFolder = [...rules].map(([path, text]) => ({
    folder: path.slice(0, -".gitignore".length),
    matcher: ignore().add(text),
  }));

  return (path) => {
    if (!ignore.isPathValid(path)) return false;
    if (everywhere.ignores(path)) return true;
    return perFolder.some(
      ({ folder, matcher }) =>
        path.startsWith(folder) && path.length > folder.length && matcher.ignores(path.slice(folder.length)),
    );
  };
}
