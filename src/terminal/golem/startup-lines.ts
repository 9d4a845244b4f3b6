import type { NamedTool } from "#domain/tool.ts";
import { oneLine } from "#terminal/value-to-text.ts";
import type { PreparedRun } from "./prepare-run.ts";
import type { RunFlags } from "./run-request.ts";
import type { Terminal } from "./terminal.ts";

/** Returns the lines printed before a worker starts: the worker, its files, and the tools that are unavailable here. */
export function startupLines(
  { chosen, model, checkout, id, resumed, notSaved, program }: PreparedRun,
  {
    omitted,
    request: { yes, dryRun },
    terminal,
  }: { omitted: readonly string[]; request: RunFlags; terminal: Terminal },
): string[] {
  const { worker, isOwn } = chosen;
  const at = checkout.head ? ` at ${checkout.head.slice(0, 7)}` : "";
  const files = `${checkout.fileCount.toLocaleString("en")} ${checkout.fileCount === 1 ? "file" : "files"}`;
  const from = isOwn && !program ? " (of this checkout)" : "";
  const approvesAll = yes.includes("all") || program?.config.approval.mode === "approve_all";
  const preApproved = approvesAll ? "all tools" : yes.map(oneLine).join(", ");
  const ignored = program?.ignored ?? [];
  const without = Object.keys(worker.toolsets).filter((name) => omitted.includes(name) && name !== "ask");
  const { paint } = terminal;
  return [
    `${paint("bold", oneLine(worker.name))}${from} · ${oneLine(model)} · ${oneLine(checkout.branch)}${at} · ${files}`,
    ...(resumed ? [paint("gray", `Resuming the run ${id}. golem log ${id} shows what it did.`)] : []),
    ...(notSaved ? [paint("yellow", `This run cannot be resumed later: ${oneLine(notSaved)}`)] : []),
    ...(without.length > 0 ? [paint("gray", `Running locally: the toolsets ${without.join(", ")} are off.`)] : []),
    ...(ignored.length > 0
      ? [
          paint(
            "yellow",
            `The program's configuration has settings without effect: ${ignored.map(oneLine).join(", ")}.`,
          ),
        ]
      : []),
    ...(preApproved === "" ? [] : [paint("yellow", `Approved in advance: ${preApproved}.`)]),
    ...(terminal.isInteractive || dryRun
      ? []
      : [
          paint(
            "gray",
            "There is no terminal to ask: ask_user is off, and calls that need approval are denied unless --yes names the tool.",
          ),
        ]),
  ];
}

/** Describes a worker's tools, one per line, and marks those that need approval. */
export function describeTools(tools: readonly NamedTool[]): string[] {
  const width = Math.max(0, ...tools.map(({ name }) => name.length));
  return tools.map(({ name, needsApproval, manualExecution }) => {
    const isForPeople = manualExecution?.mode === "manual";
    const asks = typeof needsApproval === "function" ? "may ask" : needsApproval === false ? "" : "asks";
    return `  ${oneLine(name).padEnd(width)}  ${isForPeople ? "for people" : asks}`.trimEnd();
  });
}
