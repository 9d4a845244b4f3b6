import type { Context } from "hono";
import { type Config, isListedRepository } from "#config/config.ts";
import { canWrite } from "#domain/github.ts";
import type { RunSpec } from "#domain/run.ts";
import type { RunTree, RunViewReader } from "#runtime/views/run-view-reader.ts";
import type { AccessCache } from "./access-cache.ts";
import type { PageContext, Viewer } from "./page-context.ts";
import { PageError, runNotFound } from "./responses.ts";
import type { RunLinks } from "./run-links.ts";
import type { Session, Sessions } from "./sessions.ts";

export interface FindRunServices {
  github: Pick<Config["github"], "webUrl" | "repositories">;
  views: () => RunViewReader;
  links: RunLinks;
  /** Undefined if this deployment has no sign-in. */
  sessions: Sessions | undefined;
  access: AccessCache;
  now: () => number;
}

/** A run and what its viewer may see and do. */
export interface FoundRun {
  root: RunSpec;
  tree: RunTree;
  page: PageContext;
}

/** Reads a run whose link was verified. Throws a PageError if it does not exist or the viewer may not read it. */
export async function findRun(services: FindRunServices, context: Context, runId: string): Promise<FoundRun> {
  const { github, views, links, sessions, access, now } = services;
  const tree = await views().readTree(runId);
  const root = tree?.runs[0]?.spec;
  if (!tree || !root) throw runNotFound();
  const { origin } = root;
  const { owner, repo, thread, isPullRequest } = origin;
  const { repositories } = github;
  if (repositories && !isListedRepository(repositories, owner, repo)) throw runNotFound();

  const path = links.pathOf(runId);
  const session = await sessions?.current(context);
  if (await access.isPrivate(origin)) await assertMayRead(services, { origin, session, path });
  const repositoryUrl = `${github.webUrl}/${encodeURIComponent(owner)}/${encodeURIComponent(repo)}`;
  const threadUrl = `${repositoryUrl}/${isPullRequest ? "pull" : "issues"}/${thread}`;
  const viewer = await findViewer(services, { origin, session, path });
  return { root, tree, page: { viewer, path, threadUrl, repositoryUrl, now: now() } };
}

interface Visit {
  origin: RunSpec["origin"];
  session: Session | undefined;
  path: string;
}

/** Links can be passed on and outlive someone's access, so private repositories also require permission to read. */
async function assertMayRead({ sessions, access }: FindRunServices, { origin, session, path }: Visit): Promise<void> {
  if (!sessions) {
    throw new PageError(
      403,
      "This run belongs to a private repository, and sign-in is not set up here. Ask the operator of Golem Forge to set GITHUB_CLIENT_ID.",
    );
  }
  if (!session) {
    const link = { href: signInPath(path), text: "Sign in with GitHub" };
    throw new PageError(401, "This run belongs to a private repository. Sign in to read it.", link);
  }
  const permission = await access.permissionOf(origin, session);
  if (permission === "unknown") {
    throw new PageError(503, "GitHub did not answer, so your access could not be checked. Try again in a moment.");
  }
  if (permission === "none") {
    throw new PageError(403, `This run belongs to a private repository that ${session.login} cannot read.`);
  }
}

async function findViewer({ sessions, access }: FindRunServices, { origin, session, path }: Visit): Promise<Viewer> {
  if (!sessions) return { kind: "anonymous" };
  if (!session) return { kind: "signed-out", signInPath: signInPath(path) };
  const permission = await access.permissionOf(origin, session);
  const canCommand = permission !== "unknown" && canWrite(permission);
  return { kind: "signed-in", login: session.login, formKey: sessions.formKey(session), canCommand };
}

/** Returns the path that starts the sign-in and then redirects to `to`. */
export function signInPath(to: string): string {
  return `/runs/-/sign-in?to=${encodeURIComponent(to)}`;
}
