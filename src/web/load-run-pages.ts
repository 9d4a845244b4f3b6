import type { IncomingMessage, ServerResponse } from "node:http";
import type { RunSpec } from "#domain/run.ts";
import { createAccessCache } from "./access-cache.ts";
import type { createRunPages, RunPagesOptions } from "./create-run-pages.ts";
import { createRunLinks, isPagePath } from "./run-links.ts";

/** True for an address that a person opens in a browser, other than those for programs. */
function isVisit({ method, url = "", headers: { accept = "" } }: IncomingMessage): boolean {
  return method === "GET" && accept.includes("text/html") && !/^\/(?:healthz|readyz|metrics|api\/)/.test(url);
}

/** Creates run pages whose modules, a fifth of the program, are loaded at the first request for a page. */
export function loadRunPages(options: Omit<RunPagesOptions, "links" | "access">) {
  const { config, openGitHub, now = Date.now } = options;
  const links = createRunLinks(config.app.webhookSecret);
  const access = createAccessCache({ openGitHub, now });
  let loading: Promise<ReturnType<typeof createRunPages>> | undefined;
  const load = () => {
    loading ??= import("./create-run-pages.ts").then((module) => module.createRunPages({ ...options, links, access }));
    return loading;
  };
  return {
    /** Answers requests for pages, and tells browsers about unknown ones. Returns false for any other request. */
    answer(request: IncomingMessage, response: ServerResponse): boolean {
      if (!isPagePath(request.url) && !isVisit(request)) return false;
      void load().then((pages) => pages.answer(request, response));
      return true;
    },
    /** Resolves to the address of the run's page; to undefined if it could not be opened by anyone. */
    linkTo: async ({ rootId, origin }: RunSpec): Promise<string | undefined> => {
      const { url, signIn } = config.page;
      if (!signIn && (await access.isPrivate(origin))) return undefined;
      return `${url}${links.pathOf(rootId)}`;
    },
    /** Ends all event streams. */
    close: () => void loading?.then((pages) => pages.close()),
  };
}
