import { addUser } from "#playground/github/create-world.ts";
import { branches, renameBranch } from "#playground/github/git/git-repository.ts";
import type { LocalGitHub } from "#playground/github/local-github.ts";
import { fullName, showRepository } from "#playground/github/shapes/repository.ts";
import { showIssue } from "#playground/github/shapes/thread.ts";
import { showUser } from "#playground/github/shapes/user.ts";
import { nextNumber } from "#playground/github/user-actions.ts";
import { type Installation, nameKey, type Repository, type User, type World } from "#playground/github/world.ts";

/** Changes that owners make to repositories and to the app's installation. Each sends the webhooks that GitHub sends. */
export class AccountChanges {
  readonly #world: World;
  readonly #credentials: LocalGitHub["credentials"];

  constructor({ world, credentials }: Pick<LocalGitHub, "world" | "credentials">) {
    this.#world = world;
    this.#credentials = credentials;
  }

  /** Renames a repository. The old name redirects to it until another repository takes that name. */
  rename(repository: Repository, name: string): void {
    const from = repository.name;
    this.#move(repository, () => {
      repository.name = name;
    });
    this.#emit(repository, "renamed", { repository: { name: { from } } });
  }

  /** Transfers a repository to another account, with or without the app. */
  transfer(repository: Repository, login: string, { installed = true }: { installed?: boolean } = {}): void {
    const { owner: from, installation } = repository;
    if (installation) this.#emitInstallation("installation_repositories", "removed", installation, [repository]);
    this.#move(repository, () => {
      repository.owner = addUser(this.#world, login, "Organization");
      repository.installation = installed ? this.#installationOf(repository.owner) : undefined;
    });
    this.#emit(repository, "transferred", { owner: { from: { organization: showUser(this.#world, from) } } });
  }

  /** Renames an account. The app only learns of it from the next event. */
  renameOwner(login: string, to: string): void {
    const { users, repositories, previousNames } = this.#world;
    const user = users.get(nameKey(login));
    if (!user) throw new Error(`There is no user called ${login}.`);
    const owned = this.#ownedBy(user).map((repository) => ({ repository, key: nameKey(fullName(repository)) }));
    users.delete(nameKey(login));
    user.login = to;
    users.set(nameKey(to), user);
    for (const { permissions } of repositories.values()) {
      const permission = permissions.get(nameKey(login));
      if (permission) permissions.set(nameKey(to), permission);
      permissions.delete(nameKey(login));
    }
    for (const { repository, key } of owned) {
      repositories.delete(key);
      previousNames.set(key, repository);
      repositories.set(nameKey(fullName(repository)), repository);
    }
  }

  delete(repository: Repository): void {
    this.#world.repositories.delete(nameKey(fullName(repository)));
    this.#emit(repository, "deleted");
    this.#world.notify();
  }

  async renameDefaultBranch(repository: Repository, name: string): Promise<void> {
    await renameBranch(repository.gitDirectory, repository.defaultBranch, name);
    for (const { state, pull } of repository.threads.values()) {
      if (state === "open" && pull?.base.branch === repository.defaultBranch) pull.base.branch = name;
    }
    repository.defaultBranch = name;
    repository.knownBranches = await branches(repository.gitDirectory);
    this.#world.notify();
  }

  deleteIssue(repository: Repository, number: number): void {
    const thread = repository.threads.get(number);
    repository.threads.delete(number);
    repository.removedThreads.set(number, "deleted");
    this.#world.emit({ event: "issues", action: "deleted", repository, sender: this.#maintainer, thread });
  }

  /** Moves an issue to another repository and returns its number there. */
  transferIssue(repository: Repository, number: number, to: Repository): number {
    const thread = repository.threads.get(number);
    if (!thread) throw new Error(`There is no issue ${number}.`);
    const transferred = { ...thread, number: nextNumber(to) };
    repository.threads.delete(number);
    to.threads.set(transferred.number, transferred);
    for (const [id, comment] of [...repository.comments].filter(([, one]) => one.thread === number)) {
      repository.comments.delete(id);
      to.comments.set(id, { ...comment, thread: transferred.number });
    }
    repository.removedThreads.set(number, { repository: to, number: transferred.number });
    const world = this.#world;
    const changes = { new_issue: showIssue(world, to, transferred), new_repository: showRepository(world, to) };
    world.emit({ event: "issues", action: "transferred", repository, sender: this.#maintainer, thread, changes });
    return transferred.number;
  }

  suspend(): void {
    this.#setSuspended(true);
  }

  unsuspend(): void {
    this.#setSuspended(false);
  }

  uninstall(): void {
    const installation = this.#installation;
    const repositories = [...this.#world.repositories.values()].filter((one) => one.installation === installation);
    for (const repository of repositories) repository.installation = undefined;
    this.#world.installations.delete(installation.id);
    this.#credentials.revokeInstallation(installation);
    this.#emitInstallation("installation", "deleted", installation, repositories);
  }

  /** Installs the app again on all repositories of the account, with a new installation id. */
  install(): void {
    const installation = this.#installationOf(this.#account);
    const repositories = this.#ownedBy(this.#account);
    for (const repository of repositories) repository.installation = installation;
    this.#emitInstallation("installation", "created", installation, repositories);
  }

  /** Removes a repository from the installation. */
  removeRepository(repository: Repository): void {
    const installation = this.#installation;
    repository.installation = undefined;
    this.#emitInstallation("installation_repositories", "removed", installation, [repository]);
  }

  /** Adds a repository to the installation. */
  addRepository(repository: Repository): void {
    repository.installation = this.#installation;
    this.#emitInstallation("installation_repositories", "added", this.#installation, [repository]);
  }

  get #account(): User {
    return this.#world.app.owner;
  }

  get #maintainer(): User {
    return addUser(this.#world, "maintainer", "User");
  }

  get #installation(): Installation {
    const found = [...this.#world.installations.values()].find(({ account }) => account === this.#account);
    if (!found) throw new Error("The app is not installed.");
    return found;
  }

  #ownedBy(user: User): Repository[] {
    return [...this.#world.repositories.values()].filter(({ owner }) => owner === user);
  }

  #installationOf(account: User): Installation {
    const known = [...this.#world.installations.values()].find((one) => one.account === account);
    const installation = known ?? { id: this.#world.nextId(), account, suspended: false };
    this.#world.installations.set(installation.id, installation);
    return installation;
  }

  #setSuspended(suspended: boolean): void {
    const installation = this.#installation;
    installation.suspended = suspended;
    const action = suspended ? "suspend" : "unsuspend";
    this.#emitInstallation("installation", action, installation, this.#ownedBy(this.#account));
  }

  #move(repository: Repository, change: () => void): void {
    const { repositories, previousNames } = this.#world;
    const before = nameKey(fullName(repository));
    change();
    repository.updatedAt = new Date();
    const after = nameKey(fullName(repository));
    repositories.delete(before);
    repositories.set(after, repository);
    previousNames.set(before, repository);
    previousNames.delete(after);
    this.#world.notify();
  }

  #emit(repository: Repository, action: string, changes: Record<string, unknown> = {}): void {
    this.#world.emit({ event: "repository", action, repository, sender: this.#maintainer, changes });
  }

  #emitInstallation(
    event: "installation" | "installation_repositories",
    action: string,
    installation: Installation,
    repositories: Repository[],
  ): void {
    this.#world.emitInstallationEvent({ event, action, installation, sender: this.#maintainer, repositories });
  }
}
