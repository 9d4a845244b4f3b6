import picomatch from "picomatch";

// A change to one of these runs code, grants rights or instructs agents outside this run.
const patterns = [
  ".*/**",
  "**/.github/**",
  "**/{CODEOWNERS,.gitmodules,.gitattributes,.npmrc,.yarnrc,.yarnrc.yml,.pnpmfile.cjs}",
  "{.gitlab-ci.yml,.travis.yml,.pre-commit-config.yaml,azure-pipelines.yml,jenkinsfile}",
  "**/{agents.md,agent.md,claude.md,gemini.md,copilot-instructions.md,.cursorrules,.windsurfrules,skill.md}",
  "**/{package.json,package-lock.json,npm-shrinkwrap.json,yarn.lock,pnpm-lock.yaml,bun.lock,bun.lockb,deno.lock}",
  "**/{cargo.lock,poetry.lock,uv.lock,pdm.lock,pipfile.lock,gemfile.lock,composer.lock,go.sum,flake.lock}",
  "**/{packages.lock.json,gradle.lockfile,mix.lock,pubspec.lock,podfile.lock,package.resolved}",
];

const isMatch = picomatch(patterns, { dot: true, nocase: true });

/** True for files that control CI, ownership, dependencies or agents: changing them always needs approval. Takes a resolved path. */
export function isProtectedPath(path: string): boolean {
  return isMatch(path.normalize("NFKC"));
}
