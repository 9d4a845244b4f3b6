import { ToolError } from "#domain/errors.ts";
import type { Workspace } from "#domain/workspace.ts";
import type { SandboxCall } from "./messages.ts";

const changing: ReadonlySet<SandboxCall["method"]> = new Set(["write", "remove", "move"]);

/** Performs a sandbox call for a tool's process, subject to the run's rules for paths and zones. */
export async function answerSandboxCall(
  workspace: Workspace,
  call: SandboxCall,
  { mayChange }: { mayChange: boolean },
): Promise<unknown> {
  if (!mayChange && changing.has(call.method)) {
    throw new ToolError("The sandbox is read-only before the call is allowed.", {
      code: "PERMISSION_DENIED",
      suggestion: "Change files only in execute.",
    });
  }
  switch (call.method) {
    case "exists":
      return workspace.exists(call.path);
    case "stat":
      return workspace.stat(call.path);
    case "read":
      return encode(await workspace.readBytes(call.path));
    case "write": {
      const content = typeof call.content === "string" ? call.content : Buffer.from(call.content.base64, "base64");
      const { executable } = call;
      return workspace.write(call.path, content, executable === undefined ? {} : { executable });
    }
    case "remove":
      return workspace.remove(call.path, { recursive: call.recursive ?? false });
    case "move":
      return workspace.move(call.from, call.to, { overwrite: call.overwrite ?? false });
    case "list":
      return workspace.list(call.path, { recursive: call.recursive ?? false });
    case "paths":
      return workspace.paths();
    case "changes":
      return workspace.changes();
    case "readBase": {
      const content = await workspace.readBase(call.path);
      return content && encode(content);
    }
    case "ruleFor":
      return workspace.ruleFor(call.path);
  }
}

function encode(content: Uint8Array): { base64: string } {
  return { base64: Buffer.from(content.buffer, content.byteOffset, content.byteLength).toString("base64") };
}
