import type { ChatRequest } from "./model-server.ts";

export type ChatMessage = ChatRequest["messages"][number];

/** Omits interrupted turns, which are played again. */
export function withoutInterrupted(messages: readonly ChatMessage[]): ChatMessage[] {
  const interrupted = new Set(
    messages
      .filter((message) => /^\{"type":"interrupted"/.test(messageText(message)))
      .map((message) => message.tool_call_id),
  );
  const turns = messages.filter(({ tool_calls = [] }) => tool_calls.some(({ id }) => interrupted.has(id)));
  const callIds = new Set(turns.flatMap(({ tool_calls = [] }) => tool_calls.map(({ id }) => id)));
  return messages.filter((message) => !turns.includes(message) && !callIds.has(message.tool_call_id ?? ""));
}

/** Returns the results of all calls of this tool, oldest first. */
export function resultsOf(messages: readonly ChatMessage[], tool: string): string[] {
  const ids = messages
    .flatMap((message) => message.tool_calls ?? [])
    .filter((call) => call.function.name === tool)
    .map(({ id }) => id);
  return ids.flatMap((id) => {
    const result = messages.find(({ role, tool_call_id }) => role === "tool" && tool_call_id === id);
    return result ? [messageText(result)] : [];
  });
}

/** Returns the reason for a denial, which may be empty; undefined if the call was not denied. */
export function denialReason(result: string): string | undefined {
  if (!result.includes("denied this call")) return undefined;
  return /for this reason: (.*?)\.? It was not made/s.exec(result)?.[1] ?? "";
}

export function messageText(message: ChatMessage | undefined): string {
  const content = message?.content;
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) return "";
  return content
    .map((part: unknown) => (part && typeof part === "object" && "text" in part ? String(part.text) : ""))
    .join("\n");
}
