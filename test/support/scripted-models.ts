import type { ModelAnswer, ModelRequest, Models } from "#models/models.ts";

/** A reply of a scripted model: text, or tool calls. */
export type Line = string | { text?: string; calls: { name: string; args?: unknown; id?: string }[] };

/** Creates models that reply from a script, one line per model call, and record their requests. */
export function scriptedModels(
  script: readonly Line[] | ((request: ModelRequest, turn: number) => Line | Promise<Line>),
): Models & { requests: ModelRequest[] } {
  const requests: ModelRequest[] = [];
  return {
    requests,
    defaultModel: "scripted:model",
    findModelProblem: () => undefined,
    findToolProblem: () => undefined,
    async call(request) {
      const turn = requests.push(request) - 1;
      const line = typeof script === "function" ? await script(request, turn) : script[turn];
      if (line === undefined) throw new Error("The script is over.");
      const { text = "", calls = [] } = typeof line === "string" ? { text: line, calls: [] } : line;
      request.onText?.(text);
      return answerOf(text, calls, turn);
    },
  };
}

function answerOf(text: string, made: { name: string; args?: unknown; id?: string }[], turn: number): ModelAnswer {
  const calls = made.map(({ name, args = {}, id }, index) => ({
    callId: id ?? `call-${turn}-${index}`,
    tool: name,
    args,
  }));
  const content = [
    ...(text ? [{ type: "text" as const, text }] : []),
    ...calls.map(({ callId, tool, args }) => ({
      type: "tool-call" as const,
      toolCallId: callId,
      toolName: tool,
      input: args,
    })),
  ];
  return {
    text,
    calls,
    messages: [{ role: "assistant", content }],
    searches: [],
    usage: { inputTokens: 10, outputTokens: 20 },
    cost: undefined,
    finishReason: calls.length > 0 ? "tool-calls" : "stop",
  };
}

/** Returns the tool results in a request, as text. */
export function resultsIn(request: ModelRequest | undefined): string[] {
  return (request?.messages ?? []).flatMap((message) =>
    message.role === "tool"
      ? message.content.map((part) => (part.type === "tool-result" ? JSON.stringify(part.output) : ""))
      : [],
  );
}
