import type { Preview } from "#domain/preview.ts";
import type { ToolResult } from "#domain/result.ts";
import type { ManualToolInfo } from "#ui/form-fields.ts";

/** What a person's command for a tool came to. */
export type ToolReply =
  /** It was heard, and runs when what the worker is doing is done. */
  | { kind: "queued"; by: string; behind: "model" | "tool" | "step" }
  | { kind: "result"; by: string; tool: string; args: unknown; result: ToolResult }
  /** Nothing ran yet: `command` does it, as long as it would still do what is shown here. */
  | {
      kind: "confirm";
      callId: string;
      tool: string;
      args: unknown;
      preview?: Preview;
      command: string;
      /** Stands for exactly this call. */
      word: string;
    }
  | { kind: "form"; tool: ManualToolInfo }
  | { kind: "list"; tools: ManualToolInfo[] }
  /** Nothing ran; the sentences say why, and what to do. */
  | { kind: "refused"; by: string; message: string };
