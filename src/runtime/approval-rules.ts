import { codeownersPaths, parseCodeowners } from "#config/codeowners.ts";
import { type ApprovalRule, approvalRules, type RepositorySettings } from "#config/repository-settings.ts";
import { type Approval, answersOf, type Quorum } from "#domain/approval.ts";
import { EventLoopYielder } from "#domain/async-work.ts";
import type { RunEvent } from "#domain/events.ts";
import { type Account, hasPermission, isSameAccount } from "#domain/github.ts";
import { changesIn } from "#domain/preview.ts";
import type { RunSpec } from "#domain/run.ts";
import { matchesSomePath } from "#text/path-pattern.ts";
import type { RepositoryAccess } from "./run-environment.ts";
import { readable, type Store } from "./store/store.ts";

/** A group of people of whom a number must approve a call: from a rule of the settings, or the owners of some changed files. */
export interface Requirement extends Pick<ApprovalRule, "permission" | "people" | "teams" | "required"> {
  exclude: NonNullable<ApprovalRule["exclude"]>;
  /** A changed file with these owners. */
  ownedPath?: string;
}

/** The parts of a call that rules apply to. */
type RuledCall = Pick<Approval, "tool" | "toolName" | "toolAliases" | "workerPath" | "preview">;

const anyone: Requirement = { permission: "write", required: 1, exclude: "nobody" };

/** Returns the requirements for a call, all of which must be met. */
export async function requirementsOf(
  call: RuledCall,
  settings: RepositorySettings,
  repository: Pick<RepositoryAccess, "readFile">,
): Promise<Requirement[]> {
  const rules = approvalRules(settings).filter((rule) => appliesTo(rule, call));
  const owners = rules.some(({ codeowners }) => codeowners) ? await readCodeowners(repository) : undefined;
  const groups = await ownerGroups(call, owners);
  const requirements = rules.flatMap(({ codeowners, ...rule }): Requirement[] => {
    const { permission, required, people, teams } = rule;
    const exclude = rule.exclude ?? (required > 1 ? "authors" : "nobody");
    if (!codeowners) return [{ permission, required, people, teams, exclude }];
    // Files without owners can be approved by anyone, with the rule's permission and number of people.
    return groups.length > 0
      ? groups.map((group) => ({ ...group, permission, required, exclude }))
      : [{ permission, required, exclude }];
  });
  return requirements.length > 0 ? requirements : [anyone];
}

function appliesTo(
  { tools, paths, workers }: ApprovalRule,
  { tool, toolName, toolAliases = [], workerPath, preview }: RuledCall,
): boolean {
  const names = [tool, toolName, ...toolAliases].filter((name) => name !== undefined);
  return (
    matchesSomePath(tools, names) &&
    // Workers are found in any case of their names.
    matchesSomePath(workers?.map(inLowerCase), inLowerCase(workerPath).split(" -> ")) &&
    matchesSomePath(
      paths,
      changesIn(preview).map(({ path }) => path),
    )
  );
}

function inLowerCase(text: string): string {
  return text.toLowerCase();
}

async function readCodeowners(repository: Pick<RepositoryAccess, "readFile">) {
  const loop = new EventLoopYielder();
  for (const path of codeownersPaths) {
    const text = await repository.readFile(path);
    if (text !== undefined) return parseCodeowners(text, () => (loop.isDue ? loop.turn() : undefined));
  }
  return undefined;
}

/** Returns the distinct groups of owners of the changed files. Files without owners are in none. */
async function ownerGroups({ preview }: RuledCall, ownersOf: ReturnType<typeof parseCodeowners> | undefined) {
  const groups = new Map<string, Pick<Requirement, "people" | "teams"> & { ownedPath: string }>();
  for (const { path } of changesIn(preview)) {
    const owners = (await ownersOf?.(path)) ?? [];
    const key = owners.join(" ");
    if (owners.length === 0 || groups.has(key)) continue;
    // GitHub does not reveal whose an e-mail address is, so an address does not make anyone an owner here.
    const names = owners.filter((owner) => owner.startsWith("@")).map((owner) => owner.slice(1));
    groups.set(key, {
      ownedPath: path,
      people: names.filter((name) => !name.includes("/")),
      teams: names.filter((name) => name.includes("/")),
    });
  }
  return [...groups.values()];
}

/** Describes whose approval meets a requirement, and whose does not: `2 of @ada or @grace, but not …`. */
export function describeRequirement(requirement: Requirement, requestedBy: string): string {
  const { permission, people, teams, required, exclude, ownedPath } = requirement;
  const mention = (name: string) => `@${name.replace(/^@/, "")}`;
  const names = (people ?? []).map((person) => (typeof person === "number" ? `account ${person}` : mention(person)));
  const all = [...names, ...(teams ?? []).map(mention)];
  const isListed = people !== undefined || teams !== undefined;
  const listed = all.length > 0 ? all.join(" or ") : "Nobody the app can identify";
  const access = permission === "write" ? "" : `${isListed ? " with" : ""} ${permission} access`;
  const who = isListed ? `${listed}${access}` : `Anyone with ${permission} access`;
  const owned = ownedPath === undefined ? "" : ` as owner of ${ownedPath}`;
  const but = {
    nobody: "",
    requester: `, but not @${requestedBy}, who started this run,`,
    authors: `, but not @${requestedBy} or others who wrote input to this run,`,
  }[exclude];
  return `${required > 1 ? `${required} people: ` : ""}${who}${owned}${but}`;
}

/** The facts about people from GitHub and from the logs of a run tree. */
export interface ApproverFacts {
  repository: Pick<RepositoryAccess, "getPermission" | "findAccount" | "isTeamMember">;
  /** The ids that the settings' logins had when the request was made. */
  accounts: Readonly<Record<string, number>>;
  requester: Account;
  /** Everyone who wrote input to the run tree. */
  authors: () => Promise<readonly Account[]>;
}

/** Explains why a person's approval does not count for a requirement; undefined if it does. */
export async function findProblem(
  requirement: Requirement,
  person: Account,
  facts: ApproverFacts,
): Promise<string | undefined> {
  const { permission, people, teams, exclude } = requirement;
  const { login } = person;
  if (!hasPermission(await facts.repository.getPermission(login, person.id), permission)) {
    return `@${login} does not have ${permission} access.`;
  }
  if ((people || teams) && !(await isListed({ people, teams }, person, facts))) {
    const described = describeRequirement({ ...requirement, exclude: "nobody", required: 1 }, facts.requester.login);
    return `@${login} may not approve here. Approvers: ${described}.`;
  }
  if (exclude !== "nobody" && (await isOneOf(person, [facts.requester], facts))) {
    return `@${login} started this run, and this repository requires approval by a second person.`;
  }
  if (exclude === "authors" && (await isOneOf(person, await facts.authors(), facts))) {
    return `@${login} wrote input to this run, and this repository requires approval by someone who did not.`;
  }
  return undefined;
}

async function isListed(
  { people = [], teams = [] }: Pick<Requirement, "people" | "teams">,
  person: Account,
  { repository, accounts }: ApproverFacts,
): Promise<boolean> {
  for (const listed of people) {
    if (typeof listed === "number") {
      if (listed === person.id) return true;
      continue;
    }
    const name = listed.replace(/^@/, "").toLowerCase();
    // In an embedding program, people have no account.
    if (person.id === undefined) {
      if (name === person.login.toLowerCase()) return true;
      continue;
    }
    if ((accounts[name] ?? (await repository.findAccount(name))?.id) === person.id) return true;
  }
  for (const team of teams) if (await repository.isTeamMember(team, person)) return true;
  return false;
}

/** True if the person is one of these. If a login without an id no longer exists, anyone may be that person. */
async function isOneOf(person: Account, people: readonly Account[], { repository }: ApproverFacts): Promise<boolean> {
  for (const other of people) {
    if (isSameAccount(person, other)) return true;
    if (other.id !== undefined || person.id === undefined) continue;
    const account = await repository.findAccount(other.login);
    if (!account || account.id === person.id) return true;
  }
  return false;
}

/** Returns, for each requirement, which of these people count for it. */
export async function countApprovals(
  requirements: readonly Requirement[],
  people: readonly Account[],
  facts: ApproverFacts,
): Promise<(Quorum & { problem: string | undefined })[]> {
  return Promise.all(
    requirements.map(async (requirement) => {
      const problems = await Promise.all(people.map((person) => findProblem(requirement, person, facts)));
      const counting = people.filter((_, index) => problems[index] === undefined);
      const distinct = counting.filter((one, index) => counting.findIndex((two) => isSameAccount(one, two)) === index);
      return {
        who: describeRequirement({ ...requirement, required: 1 }, facts.requester.login),
        required: requirement.required,
        by: distinct.map(({ login }) => login),
        problem: problems.at(-1),
      };
    }),
  );
}

/** Returns the people who approved a request. */
export function approversOf(approval: Approval): Account[] {
  return answersOf(approval).map(({ by, byId }) => ({ login: by, id: byId }));
}

/** Looks up the ids of logins in requirements, so that renaming an account neither gives nor takes away the right. */
export async function resolveAccounts(
  requirements: readonly Requirement[],
  repository: Pick<RepositoryAccess, "findAccount">,
): Promise<Record<string, number>> {
  const listed = requirements.flatMap(({ people = [] }) => people).filter((person) => typeof person === "string");
  const names = new Set(listed.map((name) => name.replace(/^@/, "").toLowerCase()));
  const found = await Promise.all([...names].map(async (name) => [name, (await repository.findAccount(name))?.id]));
  return Object.fromEntries(found.filter(([, id]) => id !== undefined));
}

/** Returns the facts needed to evaluate the answers to a request. */
export function factsAbout(
  { accounts = {} }: Pick<Approval, "accounts">,
  root: RunSpec,
  { store, repository }: { store: Store; repository: ApproverFacts["repository"] },
): ApproverFacts {
  const { requestedBy: login, requestedById: id } = root.origin;
  let authors: Promise<readonly Account[]> | undefined;
  return {
    repository,
    accounts,
    requester: { login, id },
    authors: () => {
      authors ??= authorsOf(store, root.id);
      return authors;
    },
  };
}

/** Returns the people who wrote input to a run or one below it. */
async function authorsOf(store: Store, runId: string): Promise<Account[]> {
  const [log, children] = await Promise.all([store.log(runId), store.childrenOf(runId)]);
  const own = log.flatMap(({ event }) => writersOf(event));
  const below = await Promise.all(children.map((child) => authorsOf(store, readable(child).id)));
  return [...own, ...below.flat()];
}

/** Returns the people who wrote the parts of an event that the model reads. */
function writersOf(event: RunEvent): Account[] {
  switch (event.type) {
    case "message.received":
      return event.kind === "prompt" ? [] : [{ login: event.by, id: event.byId }, ...(event.authors ?? [])];
    case "question.answered":
    case "pull_request.reviewed":
    case "tool.invoked":
      return [{ login: event.by, id: event.byId }];
    case "approval.granted":
      return event.args === undefined ? [] : [{ login: event.by, id: event.byId }];
    case "approval.denied":
      return event.reason === undefined ? [] : [{ login: event.by, id: event.byId }];
    case "guidance.read":
    case "sandbox.opened":
    case "sandbox.failed":
    case "model.answered":
    case "conversation.compacted":
    case "model.failed":
    case "calls.reviewed":
    case "approval.expired":
    case "tool.finished":
    case "checks.completed":
    case "pull_request.closed":
    case "pull_request.reopened":
    case "run.exit":
    case "retry.requested":
    case "conversation.cleared":
    case "model.changed":
    case "cost_limit.raised":
    case "child.finished":
    case "run.stop":
    case "run.resume":
    case "run.cancel":
    case "timer.due":
      return [];
  }
}
