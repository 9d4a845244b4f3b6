import { UserError } from "#domain/errors.ts";
import { oneLine } from "#terminal/value-to-text.ts";
import { closestMatch } from "#text/closest-match.ts";
import { type ApprovalCallback, ApprovalController, type ApprovalMode } from "#ui/approval-controller.ts";
import type { Terminal } from "./terminal.ts";

/**
 * Approves the tools named with `--yes`, and follows the approval mode of a program. Asks the person about all others, or
 * denies them if there is no terminal.
 */
export function createPreApproval(
  yes: readonly string[],
  ask: ApprovalCallback,
  terminal: Terminal,
  mode: ApprovalMode = "interactive",
): ApprovalController {
  return new ApprovalController({
    mode: "interactive",
    approvalCallback: async (request) => {
      const tool = request.toolName;
      const isNamed = yes.includes("all") || yes.includes(tool);
      if (isNamed || mode === "approve_all") {
        const by = isNamed ? "with --yes" : "by the program's configuration";
        terminal.bus.emit("status", { type: "info", message: `${oneLine(tool)} was approved in advance ${by}.` });
        return { approved: true };
      }
      if (mode === "auto_deny") {
        return { approved: false, note: "the program's configuration denies every call that needs approval" };
      }
      if (terminal.isInteractive) return ask(request);
      terminal.bus.emit("status", {
        type: "warning",
        message: `${oneLine(tool)} was denied: there is no terminal to ask for approval, and --yes does not name it.`,
      });
      return { approved: false, note: "there is no terminal to ask for approval" };
    },
  });
}

/** Throws a UserError for a tool named with `--yes` that the worker does not have. */
export function checkPreApproved(yes: readonly string[], tools: readonly string[], worker: string): void {
  const unknown = yes.find((name) => name !== "all" && !tools.includes(name));
  if (unknown === undefined) return;
  const near = closestMatch(unknown, [...tools, "all"]);
  throw new UserError(
    `--yes ${unknown}: ${worker} has no such tool.${near ? ` Did you mean ${near}?` : ""} It has: ${tools.join(", ") || "none"}.`,
  );
}
