import { z } from "zod";
import type { Approval } from "#domain/approval.ts";
import type { ModelCall } from "#domain/events.ts";
import type { NamedTool } from "#domain/tool.ts";
import type { CallContext } from "#toolsets/review-call.ts";
import { createToolbox, type ToolboxOptions } from "#toolsets/toolbox.ts";
import type { FinishedCall } from "#toolsets/toolset.ts";
import { memoryWorkspace } from "./memory-workspace.ts";
import { sampleApproval } from "./run-view.ts";

/** A tool that reads. A test can change any part of it. */
export function aTool(change: Partial<NamedTool> = {}): NamedTool {
  return {
    name: "read_file",
    description: "Reads a file",
    inputSchema: z.object({ path: z.string(), limit: z.number().optional() }),
    execute: ({ path }) => `content of ${path}`,
    needsApproval: false,
    ...change,
  };
}

let calls = 0;

export function aCall(tool: string, args: unknown, change: Partial<ModelCall> = {}): ModelCall {
  return { callId: `call-${++calls}`, tool, args, ...change };
}

export function aContext({ step = 1, ...change }: Partial<CallContext> & { step?: number } = {}): CallContext {
  return {
    abortSignal: new AbortController().signal,
    messages: [],
    run: { id: "run-1", worker: "fixer", depth: 0, step },
    idempotencyKey: "run-1/call",
    output: () => {},
    ...change,
  };
}

/** Creates a toolbox of these tools, with a history that tests can write. */
export async function toolboxWorld(tools: readonly NamedTool[], options: Partial<ToolboxOptions> = {}) {
  const history: FinishedCall[] = [];
  const toolbox = await createToolbox({ tools, workspace: memoryWorkspace(), history: () => history, ...options });

  return {
    toolbox,
    history,
    review: (tool: string, args: unknown, { context = aContext(), remembered = [] as Partial<Approval>[] } = {}) =>
      toolbox.review(
        aCall(tool, args),
        context,
        remembered.map((approval) => sampleApproval({ preview: undefined, remember: "session", ...approval })),
      ),
    execute: (tool: string, args: unknown, context: CallContext = aContext()) =>
      toolbox.execute(aCall(tool, args), context),
    /** Runs a call and adds it to the history. */
    async finish(tool: string, args: unknown, step: number) {
      const call = aCall(tool, args);
      const result = await toolbox.execute(call, aContext({ step }));
      history.push({ ...call, result, step });
      return result;
    },
  };
}

/** Returns the error of a refusal. Fails the test if the call was not refused. */
export function refusalOf(review: Awaited<ReturnType<Awaited<ReturnType<typeof toolboxWorld>>["toolbox"]["review"]>>) {
  if (review.kind !== "refuse" || !review.result.error)
    throw new Error(`It was not refused: ${JSON.stringify(review)}`);
  return { ...review.result.error, llmContent: review.result.llmContent };
}
