import { oneLine } from "#terminal/render-value.ts";
import type { PreparedRun } from "./prepare-run.ts";
import type { RunFlags } from "./run-request.ts";
import type { Terminal } from "./terminal.ts";

/** What is said before a worker begins: who works on what, and with what not. */
export function startupLines(
  { chosen, model, checkout, id, resumed, notSaved }: PreparedRun,
  {
    omitted,
    request: { yes, dryRun },
    terminal,
  }: { omitted: readonly string[]; request: RunFlags; terminal: Terminal },
): string[] {
  const { worker, isOwn } = chosen;
  const at = checkout.head ? ` at ${checkout.head.slice(0, 7)}` : "";
  const files = `${checkout.fileCount.toLocaleString("en")} ${checkout.fileCount === 1 ? "file" : "files"}`;
  const from = isOwn ? " (of this checkout)" : "";
  const without = Object.keys(worker.toolsets).filter((name) => omitted.includes(name) && name !== "ask");
  const { paint } = terminal;
  return [
    `${paint("bold", oneLine(worker.name))}${from} · ${oneLine(model)} · ${oneLine(checkout.branch)}${at} · ${files}`,
    ...(resumed ? [paint("gray", `Resuming the run ${id}. golem log ${id} shows what it did.`)] : []),
    ...(notSaved ? [paint("yellow", `This run cannot be resumed later: ${oneLine(notSaved)}`)] : []),
    ...(without.length > 0 ? [paint("gray", `It goes without ${without.join(", ")} here: there is no GitHub.`)] : []),
    ...(yes.length > 0
      ? [
          paint(
            "yellow",
            `Approved beforehand: ${yes.includes("all") ? "everything it asks for" : yes.map(oneLine).join(", ")}.`,
          ),
        ]
      : []),
    ...(terminal.isInteractive || dryRun
      ? []
      : [
          paint(
            "gray",
            "Nobody can be asked here: questions are left out, and what needs approval is denied unless --yes names it.",
          ),
        ]),
  ];
}
