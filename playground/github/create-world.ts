import { readFileSync } from "node:fs";
import { cp } from "node:fs/promises";
import { join } from "node:path";
import { parse } from "yaml";
import { z } from "zod";
import type { Permission } from "#domain/github.ts";
import { type CommitFiles, commitFiles } from "./git/commit-files.ts";
import { branches, initialize, requireSignedCommits } from "./git/git-repository.ts";
import { type AppPermissions, nameKey, type Repository, type User, type World } from "./world.ts";

const AppManifest = z.object({
  default_events: z.array(z.string()),
  default_permissions: z.record(z.string(), z.enum(["read", "write"])),
});

/** The users that can be impersonated, each with a permission in every repository. */
export const collaborators = { maintainer: "admin", contributor: "write", visitor: "read" } as const;

export interface NewRepository {
  owner?: string;
  name: string;
  description?: string;
  private?: boolean;
  /** Default: `team`. */
  plan?: Repository["plan"];
  /** True if jobs of GitHub Actions may open pull requests. Default: true. */
  actionsOpenPullRequests?: boolean;
  defaultBranch?: string;
  requiredChecks?: readonly string[];
  /** True for a ruleset that requires signed commits on all branches. */
  requiresSignedCommits?: boolean;
  /** False for a repository without the app. */
  installed?: boolean;
  /** Permissions by login, in addition to the usual collaborators. */
  permissions?: Record<string, Permission>;
  /** Without commits the repository is empty. */
  commits?: readonly CommitFiles[];
}

export interface NewApp {
  id: number;
  slug: string;
  /** Default: those in `app.yml`. */
  permissions?: AppPermissions;
  /** Default: those in `app.yml`. */
  events?: string[];
}

/** Creates a world with users and without repositories. */
export function createWorld({
  url,
  app,
  ...hooks
}: { app: NewApp } & Pick<World, "url" | "emit" | "emitInstallationEvent" | "notify">): World {
  let last = 1000;
  const nextId = () => ++last;
  const users = new Map<string, User>();
  const owner = addUser({ users, nextId }, "playground", "Organization");
  const bot = addUser({ users, nextId }, `${app.slug}[bot]`, "Bot");
  for (const login of Object.keys(collaborators)) addUser({ users, nextId }, login, "User");
  const installation = { id: 1, account: owner, suspended: false };
  const manifest = AppManifest.parse(parse(readFileSync(new URL("../../app.yml", import.meta.url), "utf8")));
  return {
    url,
    users,
    teams: new Map(),
    nextId,
    ...hooks,
    repositories: new Map(),
    previousNames: new Map(),
    installations: new Map([[installation.id, installation]]),
    attachments: new Map(),
    otherApps: new Map(),
    app: {
      id: app.id,
      slug: app.slug,
      name: app.slug,
      bot,
      owner,
      permissions: app.permissions ?? manifest.default_permissions,
      events: app.events ?? manifest.default_events,
      createdAt: new Date(),
    },
  };
}

/** Returns the user with this login, and creates it if there is none. */
export function addUser({ users, nextId }: Pick<World, "users" | "nextId">, login: string, type: User["type"]): User {
  const user = users.get(nameKey(login)) ?? { id: nextId(), login, type };
  users.set(nameKey(login), user);
  return user;
}

/** Creates a repository with its history. `directory` holds the bare repositories. */
export async function addRepository(world: World, directory: string, options: NewRepository): Promise<Repository> {
  const repository = newRepository(world, directory, options);
  await initialize(repository.gitDirectory, repository.defaultBranch);
  if (options.commits) await commitFiles(repository.gitDirectory, options.commits);
  if (options.requiresSignedCommits) await requireSignedCommits(repository.gitDirectory);
  repository.knownBranches = await branches(repository.gitDirectory);
  return register(world, repository);
}

/** Creates a person's fork of a repository, without the app. */
export async function addFork(world: World, directory: string, source: Repository, login: string): Promise<Repository> {
  const { name, description, defaultBranch } = source;
  const options = { owner: login, name, description, private: source.private, defaultBranch, installed: false };
  const fork = newRepository(world, directory, { ...options, permissions: { [login]: "admin" } });
  fork.forkOf = source;
  await cp(source.gitDirectory, fork.gitDirectory, { recursive: true });
  fork.knownBranches = source.knownBranches;
  return register(world, fork);
}

function newRepository(world: World, directory: string, options: NewRepository): Repository {
  const id = world.nextId();
  const permissions = Object.entries({ ...collaborators, ...options.permissions });
  for (const [login] of permissions) addUser(world, login, "User");
  const now = new Date();
  return {
    id,
    owner: addUser(world, options.owner ?? world.app.owner.login, "Organization"),
    name: options.name,
    description: options.description ?? "",
    private: options.private ?? false,
    actionsOpenPullRequests: options.actionsOpenPullRequests ?? true,
    plan: options.plan ?? "team",
    forkOf: undefined,
    defaultBranch: options.defaultBranch ?? "main",
    requiredChecks: options.requiredChecks ?? [],
    installation: options.installed === false ? undefined : [...world.installations.values()][0],
    createdAt: now,
    updatedAt: now,
    permissions: new Map(permissions.map(([login, permission]) => [nameKey(login), permission])),
    labels: new Map(),
    threads: new Map(),
    removedThreads: new Map(),
    comments: new Map(),
    reviews: new Map(),
    commitComments: [],
    reviewComments: new Map(),
    checkSuites: [],
    checkRuns: [],
    workflowRuns: [],
    statuses: [],
    gitDirectory: join(directory, `${id}.git`),
    knownBranches: new Map(),
  };
}

function register(world: World, repository: Repository): Repository {
  const key = nameKey(`${repository.owner.login}/${repository.name}`);
  world.previousNames.delete(key);
  world.repositories.set(key, repository);
  return repository;
}
