import type { IncomingMessage, ServerResponse } from "node:http";
import type { RunSpec } from "#domain/run.ts";
import type { createRunPages } from "./create-run-pages.ts";
import { isPagePath } from "./run-links.ts";

type RunPages = ReturnType<typeof createRunPages>;

/** Creates run pages whose modules, a fifth of the program, are loaded at the first request or link, or by `load`. */
export function loadRunPages(options: Parameters<typeof createRunPages>[0]): RunPages & { load(): Promise<RunPages> } {
  let loading: Promise<RunPages> | undefined;
  const load = () => {
    loading ??= import("./create-run-pages.ts").then((module) => module.createRunPages(options));
    return loading;
  };
  return {
    load,
    answer(request: IncomingMessage, response: ServerResponse) {
      if (!isPagePath(request.url)) return false;
      void load().then((pages) => pages.answer(request, response));
      return true;
    },
    linkTo: async (spec: RunSpec) => (await load()).linkTo(spec),
    close: () => void loading?.then((pages) => pages.close()),
  };
}
