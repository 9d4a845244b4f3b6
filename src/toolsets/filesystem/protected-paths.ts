import picomatch from "picomatch";

// A change to one of these runs code, grants rights or instructs agents outside this run.
const patterns = [
  // Dot folders, at any depth: .github, .husky, .vscode, .claude …
  "**/.*/**",
  // CI, ownership, git and package managers.
  "**/{CODEOWNERS,.gitmodules,.gitattributes,.npmrc,.yarnrc,.yarnrc.yml,.pnpmfile.cjs,bunfig.toml,.envrc,.ripgreprc}",
  "**/{.gitlab-ci.yml,.travis.yml,.pre-commit-config.yaml,azure-pipelines.yml,jenkinsfile,action.yml,action.yaml}",
  // Instructions and settings of agents.
  "**/{agents.md,agent.md,claude.md,claude.local.md,gemini.md,copilot-instructions.md,skill.md}",
  "**/{.claude.json,.mcp.json,.cursorrules,.windsurfrules}",
  // What builds and tests run by themselves.
  "**/{makefile,gnumakefile,justfile,dockerfile,dockerfile.*,*.dockerfile,conftest.py}",
  "**/{vitest,vite,jest,eslint,babel}.config.*",
  // Dependencies.
  "**/{package.json,package-lock.json,npm-shrinkwrap.json,yarn.lock,pnpm-lock.yaml,bun.lock,bun.lockb,deno.lock}",
  "**/{cargo.lock,poetry.lock,uv.lock,pdm.lock,pipfile.lock,gemfile.lock,composer.lock,go.sum,flake.lock}",
  "**/{packages.lock.json,gradle.lockfile,mix.lock,pubspec.lock,podfile.lock,package.resolved}",
];

const isMatch = picomatch(patterns, { dot: true, nocase: true });

/** True for files that control CI, builds, tests, ownership, dependencies or agents: changing them always needs approval. Takes a resolved path. */
export function isProtectedPath(path: string): boolean {
  return isMatch(path.normalize("NFKC"));
}
