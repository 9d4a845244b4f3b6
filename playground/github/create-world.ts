import { join } from "node:path";
import type { Permission } from "#domain/github.ts";
import { type CommitFiles, commitFiles } from "./git/commit-files.ts";
import { initialize } from "./git/git-repository.ts";
import { type AppPermissions, nameKey, type Repository, type User, type World } from "./world.ts";

/** What the app may do, and what it hears of, unless said otherwise: the same as in app.yml. */
const defaultPermissions: AppPermissions = {
  checks: "read",
  contents: "write",
  issues: "write",
  metadata: "read",
  pull_requests: "write",
};
const defaultEvents = ["issues", "issue_comment", "pull_request", "pull_request_review_comment", "push", "repository"];

/** The people one can act as, with what they may do in a repository. */
export const collaborators = { maintainer: "admin", contributor: "write", visitor: "read" } as const;

export interface NewRepository {
  owner?: string;
  name: string;
  description?: string;
  private?: boolean;
  defaultBranch?: string;
  /** False for a repository the app was not installed on. */
  installed?: boolean;
  /** Logins with what they may do, beside the usual people. */
  permissions?: Record<string, Permission>;
  /** None makes an empty repository. */
  commits?: readonly CommitFiles[];
}

export interface NewApp {
  id: number;
  slug: string;
  permissions?: AppPermissions;
  events?: string[];
}

/** A world with its people and no repositories. */
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
  const installation = { id: nextId(), account: owner, suspended: false };
  return {
    url,
    users,
    nextId,
    ...hooks,
    repositories: new Map(),
    previousNames: new Map(),
    installations: new Map([[installation.id, installation]]),
    app: {
      id: app.id,
      slug: app.slug,
      name: app.slug,
      bot,
      owner,
      permissions: app.permissions ?? defaultPermissions,
      events: app.events ?? defaultEvents,
      createdAt: new Date(),
    },
  };
}

/** The user of this login, made when there is none. */
export function addUser({ users, nextId }: Pick<World, "users" | "nextId">, login: string, type: User["type"]): User {
  const user = users.get(nameKey(login)) ?? { id: nextId(), login, type };
  users.set(nameKey(login), user);
  return user;
}

/** Makes a repository with its history. `directory` holds the bare repositories. */
export async function addRepository(world: World, directory: string, asked: NewRepository): Promise<Repository> {
  const id = world.nextId();
  const gitDirectory = join(directory, `${id}.git`);
  const defaultBranch = asked.defaultBranch ?? "main";
  await initialize(gitDirectory, defaultBranch);
  if (asked.commits) await commitFiles(gitDirectory, asked.commits);

  const permissions = Object.entries({ ...collaborators, ...asked.permissions });
  for (const [login] of permissions) addUser(world, login, "User");
  const now = new Date();
  const repository: Repository = {
    id,
    owner: addUser(world, asked.owner ?? world.app.owner.login, "Organization"),
    name: asked.name,
    description: asked.description ?? "",
    private: asked.private ?? false,
    defaultBranch,
    installation: asked.installed === false ? undefined : [...world.installations.values()][0],
    createdAt: now,
    updatedAt: now,
    permissions: new Map(permissions.map(([login, permission]) => [nameKey(login), permission])),
    labels: new Map(),
    threads: new Map(),
    removedThreads: new Map(),
    comments: new Map(),
    reviewComments: new Map(),
    checks: [],
    gitDirectory,
  };
  const key = nameKey(`${repository.owner.login}/${repository.name}`);
  world.previousNames.delete(key);
  world.repositories.set(key, repository);
  return repository;
}
