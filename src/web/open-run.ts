import type { IncomingMessage } from "node:http";
import type { Config } from "#config/config.ts";
import { isListedRepository } from "#config/config.ts";
import { canWrite } from "#domain/github.ts";
import type { RunSpec } from "#domain/run.ts";
import type { RunTree, RunViewReader } from "#runtime/views/run-view-reader.ts";
import { notThere, Refusal } from "./refusal.ts";
import type { PageContext } from "./render-parts.ts";
import type { RunLinks } from "./run-links.ts";
import type { Session, Sessions } from "./sessions.ts";
import type { Standings } from "./standings.ts";
import type { Viewer } from "./viewer.ts";

export interface OpenRunOptions {
  github: Pick<Config["github"], "webUrl" | "repositories">;
  books: () => RunViewReader;
  links: RunLinks;
  /** Undefined where nobody can sign in. */
  sessions: Sessions | undefined;
  standings: Standings;
  now: () => number;
}

/** A run as its viewer may see it. */
export interface OpenedRun {
  root: RunSpec;
  tree: RunTree;
  context: PageContext;
}

/** Gives the function that opens a run for whoever asks, by a link that was found to be right. It throws a Refusal. */
export function createOpenRun({
  github,
  books,
  links,
  sessions,
  standings,
  now,
}: OpenRunOptions): (request: IncomingMessage, runId: string) => Promise<OpenedRun> {
  async function open(request: IncomingMessage, runId: string): Promise<OpenedRun> {
    const tree = await books().readTree(runId);
    const root = tree?.runs[0]?.spec;
    if (!tree || !root) throw notThere();
    const { origin } = root;
    const { owner, repo, thread, isPullRequest } = origin;
    const { repositories } = github;
    if (repositories && !isListedRepository(repositories, owner, repo)) throw notThere();

    const path = links.pathOf(runId);
    const session = sessions?.of(request);
    if (await standings.isPrivate(origin)) await checkReader(origin, session, path);
    const address = `${github.webUrl}/${encodeURIComponent(owner)}/${encodeURIComponent(repo)}`;
    const threadUrl = `${address}/${isPullRequest ? "pull" : "issues"}/${thread}`;
    const viewer = await viewerOf(origin, session, path);
    return { root, tree, context: { viewer, path, threadUrl, address, now: now() } };
  }

  /** A link may be passed on, and outlive somebody's access: code that is not public takes more. */
  async function checkReader(origin: RunSpec["origin"], session: Session | undefined, path: string): Promise<void> {
    if (!sessions) {
      throw new Refusal(
        403,
        "This run is about a private repository, and nobody can sign in here: whoever operates Golem Forge has not set GITHUB_CLIENT_ID.",
      );
    }
    if (!session) {
      const link = { href: signInPath(path), text: "Sign in with GitHub" };
      throw new Refusal(401, "This run is about a private repository. Sign in to show that you may read it.", link);
    }
    if ((await standings.permissionOf(origin, session.login)) === "none") {
      throw new Refusal(
        403,
        `This run is about a private repository, and GitHub does not say that ${session.login} may read it.`,
      );
    }
  }

  async function viewerOf(origin: RunSpec["origin"], session: Session | undefined, path: string): Promise<Viewer> {
    if (!sessions) return { kind: "anonymous" };
    if (!session) return { kind: "guest", signInPath: signInPath(path) };
    const commands = canWrite(await standings.permissionOf(origin, session.login));
    return { kind: "known", login: session.login, formKey: sessions.formKey(session), commands };
  }

  return open;
}

function signInPath(to: string): string {
  return `/runs/-/sign-in?to=${encodeURIComponent(to)}`;
}
