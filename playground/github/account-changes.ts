import { addUser } from "./create-world.ts";
import type { Credentials } from "./credentials.ts";
import { renameBranch } from "./git/git-repository.ts";
import { fullName, showRepository } from "./shapes/repository.ts";
import { showIssue } from "./shapes/thread.ts";
import { showUser } from "./shapes/user.ts";
import { type Installation, nameKey, type Repository, type User, type World } from "./world.ts";

/** What the owners of repositories do to them, and to the app: each tells the app what GitHub would. */
export interface Owners {
  /** Gives it another name. The old one leads to it until somebody takes it. */
  rename(repository: Repository, name: string): void;
  /** Gives it to another account, on which the app is installed or not. */
  transfer(repository: Repository, login: string, to?: { installed?: boolean }): void;
  /** Gives an account another login. GitHub tells the app only with the next thing that happens. */
  renameOwner(login: string, to: string): void;
  delete(repository: Repository): void;
  renameDefaultBranch(repository: Repository, name: string): Promise<void>;
  deleteIssue(repository: Repository, number: number): void;
  /** Resolves to its number there. */
  transferIssue(repository: Repository, number: number, to: Repository): number;
  suspend(): void;
  unsuspend(): void;
  uninstall(): void;
  /** Installs it anew, on all repositories of the account, under another number. */
  install(): void;
  takeOff(repository: Repository): void;
  putBack(repository: Repository): void;
}

export function createOwners({ world, credentials }: { world: World; credentials: Credentials }): Owners {
  const account = world.app.owner;
  const sender = () => world.users.get("maintainer") as User;
  const owned = (by: User) => [...world.repositories.values()].filter(({ owner }) => owner === by);
  const theInstallation = (): Installation => {
    const found = [...world.installations.values()].find((one) => one.account === account);
    if (!found) throw new Error("The app is not installed.");
    return found;
  };
  const tellOfRepository = (repository: Repository, action: string, changes: Record<string, unknown> = {}) =>
    world.emit({ event: "repository", action, repository, sender: sender(), thread: undefined, changes });

  function move(repository: Repository, change: () => void): void {
    const before = nameKey(fullName(repository));
    change();
    repository.updatedAt = new Date();
    const after = nameKey(fullName(repository));
    world.repositories.delete(before);
    world.repositories.set(after, repository);
    world.previousNames.set(before, repository);
    world.previousNames.delete(after);
    world.notify(repository, undefined);
  }

  function installationOf(owner: User): Installation {
    const known = [...world.installations.values()].find((one) => one.account === owner);
    const installation = known ?? { id: world.nextId(), account: owner, suspended: false };
    world.installations.set(installation.id, installation);
    return installation;
  }

  function setSuspended(suspended: boolean): void {
    const installation = theInstallation();
    installation.suspended = suspended;
    const action = suspended ? "suspend" : "unsuspend";
    world.emitInstallationEvent({
      event: "installation",
      action,
      installation,
      sender: sender(),
      repositories: owned(account),
    });
  }

  function list(action: "added" | "removed", repository: Repository): void {
    const installation = theInstallation();
    repository.installation = action === "added" ? installation : undefined;
    const news = { event: "installation_repositories" as const, action, installation, sender: sender() };
    world.emitInstallationEvent({ ...news, repositories: [repository] });
  }

  return {
    rename: (repository, name) => {
      const from = repository.name;
      move(repository, () => {
        repository.name = name;
      });
      tellOfRepository(repository, "renamed", { repository: { name: { from } } });
    },
    transfer: (repository, login, { installed = true } = {}) => {
      const from = repository.owner;
      const { installation } = repository;
      if (installation) {
        const news = { event: "installation_repositories" as const, action: "removed", installation, sender: sender() };
        world.emitInstallationEvent({ ...news, repositories: [repository] });
      }
      move(repository, () => {
        repository.owner = addUser(world, login, "Organization");
        repository.installation = installed ? installationOf(repository.owner) : undefined;
      });
      tellOfRepository(repository, "transferred", { owner: { from: { organization: showUser(world, from) } } });
    },
    renameOwner: (login, to) => {
      const user = world.users.get(nameKey(login));
      if (!user) throw new Error(`There is nobody called ${login} here.`);
      const repositories = owned(user);
      const names = repositories.map((repository) => nameKey(fullName(repository)));
      world.users.delete(nameKey(login));
      user.login = to;
      world.users.set(nameKey(to), user);
      for (const [index, repository] of repositories.entries()) {
        world.repositories.delete(names[index] ?? "");
        world.previousNames.set(names[index] ?? "", repository);
        world.repositories.set(nameKey(fullName(repository)), repository);
      }
    },
    delete: (repository) => {
      world.repositories.delete(nameKey(fullName(repository)));
      tellOfRepository(repository, "deleted");
      world.notify(repository, undefined);
    },
    renameDefaultBranch: async (repository, name) => {
      await renameBranch(repository.gitDirectory, repository.defaultBranch, name);
      repository.defaultBranch = name;
      world.notify(repository, undefined);
    },
    deleteIssue: (repository, number) => {
      const thread = repository.threads.get(number);
      repository.threads.delete(number);
      repository.removedThreads.set(number, "deleted");
      world.emit({ event: "issues", action: "deleted", repository, sender: sender(), thread });
    },
    transferIssue: (repository, number, to) => {
      const thread = repository.threads.get(number);
      if (!thread) throw new Error(`There is no issue ${number}.`);
      const there = { ...thread, number: to.threads.size + to.removedThreads.size + 1 };
      repository.threads.delete(number);
      to.threads.set(there.number, there);
      for (const [id, comment] of [...repository.comments].filter(([, one]) => one.thread === number)) {
        repository.comments.delete(id);
        to.comments.set(id, { ...comment, thread: there.number });
      }
      repository.removedThreads.set(number, { repository: to, number: there.number });
      const changes = { new_issue: showIssue(world, to, there), new_repository: showRepository(world, to) };
      world.emit({ event: "issues", action: "transferred", repository, sender: sender(), thread, changes });
      return there.number;
    },
    suspend: () => setSuspended(true),
    unsuspend: () => setSuspended(false),
    uninstall: () => {
      const installation = theInstallation();
      const repositories = [...world.repositories.values()].filter((one) => one.installation === installation);
      for (const repository of repositories) repository.installation = undefined;
      world.installations.delete(installation.id);
      credentials.revokeInstallation(installation);
      world.emitInstallationEvent({
        event: "installation",
        action: "deleted",
        installation,
        sender: sender(),
        repositories,
      });
    },
    install: () => {
      const installation = installationOf(account);
      const repositories = owned(account);
      for (const repository of repositories) repository.installation = installation;
      world.emitInstallationEvent({
        event: "installation",
        action: "created",
        installation,
        sender: sender(),
        repositories,
      });
    },
    takeOff: (repository) => list("removed", repository),
    putBack: (repository) => list("added", repository),
  };
}
