import { UserError } from "#domain/errors.ts";
import { oneLine } from "#terminal/render-value.ts";
import { closestMatch } from "#text/closest-match.ts";
import { type ApprovalCallback, ApprovalController } from "#ui/approval-controller.ts";
import type { Terminal } from "./terminal.ts";

/** Approves what was named with `--yes` and says so; asks the person about the rest, and denies it where there is none. */
export function createPreApproval(
  yes: readonly string[],
  ask: ApprovalCallback,
  terminal: Terminal,
): ApprovalController {
  return new ApprovalController({
    mode: "interactive",
    approvalCallback: async (request) => {
      const tool = "toolName" in request ? request.toolName : request.tool;
      if (yes.includes("all") || yes.includes(tool)) {
        terminal.bus.emit("status", { type: "info", message: `${oneLine(tool)} was approved beforehand, with --yes.` });
        return { approved: true };
      }
      if (terminal.isInteractive) return ask(request);
      terminal.bus.emit("status", {
        type: "warning",
        message: `${oneLine(tool)} is denied: nobody can be asked, and no --yes names it.`,
      });
      return { approved: false, note: "nobody is there to approve it" };
    },
  });
}

/** Throws a UserError for a tool that was approved beforehand and that the worker does not have. */
export function checkPreApproved(yes: readonly string[], tools: readonly string[], worker: string): void {
  const stranger = yes.find((name) => name !== "all" && !tools.includes(name));
  if (stranger === undefined) return;
  const near = closestMatch(stranger, [...tools, "all"]);
  throw new UserError(
    `--yes ${stranger}: ${worker} has no such tool.${near ? ` Did you mean ${near}?` : ""} It has: ${tools.join(", ") || "none"}.`,
  );
}
