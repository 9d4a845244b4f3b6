import { ToolError } from "#domain/errors.ts";

/** What is said of a call that was under way when the process died, and that must not be made twice. */
export function interruptedCall(): ToolError {
  return new ToolError("The process stopped while this call was under way. It is not known whether it took effect.", {
    code: "INTERRUPTED",
    type: "system_error",
    suggestion: "Look before you try again.",
  });
}
