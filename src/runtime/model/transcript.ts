import type { ModelMessage, ToolModelMessage, UserContent } from "ai";
import { canonicalJson } from "#domain/approval.ts";
import { type Attachment, isTextMediaType, type LoggedEvent, type ModelCall, type RunEvent } from "#domain/events.ts";
import { describeOutcome } from "#runtime/describe-outcome.ts";
import { truncateText } from "#text/truncate.ts";
import { wrapUntrusted } from "#text/untrusted.ts";

/** Characters of a person's command and of its result: what people say is never shortened later. */
const longestInvocation = 8_000;

type ToolResultPart = Extract<ToolModelMessage["content"][number], { type: "tool-result" }>;

/**
 * The messages a model is sent, derived from the log. Every call of the model is followed by exactly one result per
 * call, in its order, before anything else is said: words that people say meanwhile come after them.
 */
export function transcript(log: readonly LoggedEvent[]): ModelMessage[] {
  const messages: ModelMessage[] = [];
  let news: { id: number; message: ModelMessage }[] = [];
  let calls: ModelCall[] = [];
  const results = new Map<string, ToolResultPart>();

  const tell = (until: number) => {
    messages.push(...news.filter(({ id }) => id <= until).map(({ message }) => message));
    news = news.filter(({ id }) => id > until);
  };

  for (const { id, event } of log) {
    if (event.type === "model.answered") {
      tell(event.lastSeenId);
      messages.push(...(event.messages as ModelMessage[]));
      calls = event.calls;
    }
    for (const [callId, result] of resultsOf(event, calls)) {
      if (!results.has(callId)) results.set(callId, result);
    }
    if (calls.length > 0 && calls.every(({ callId }) => results.has(callId))) {
      messages.push({ role: "tool", content: calls.flatMap(({ callId }) => results.get(callId) ?? []) });
      calls = [];
      results.clear();
    }
    news.push(...said(event).map((message) => ({ id, message })));
  }
  if (calls.length === 0) tell(Number.POSITIVE_INFINITY);
  return messages;
}

function resultsOf(event: RunEvent, calls: readonly ModelCall[]): [string, ToolResultPart][] {
  if (event.type === "run.stop") return calls.map((call) => [call.callId, interrupted(call, event)]);

  return answers(event).flatMap(({ callId, text, failed }) =>
    calls
      .filter((call) => call.callId === callId)
      .map((call): [string, ToolResultPart] => [callId, part(call, text, failed)]),
  );
}

/** The calls that this event answers with a failure, and what the model reads of it. */
export function failuresIn(event: RunEvent): { callId: string; text: string }[] {
  return answers(event).filter(({ failed }) => failed);
}

interface Answer {
  callId: string;
  text: string;
  failed: boolean;
}

function answers(event: RunEvent): Answer[] {
  switch (event.type) {
    case "calls.reviewed":
      return event.verdicts.flatMap((verdict) =>
        verdict.kind === "refuse" ? [{ callId: verdict.callId, text: verdict.result.llmContent, failed: true }] : [],
      );
    case "tool.finished":
      return [{ callId: event.callId, text: event.result.llmContent, failed: event.result.error !== undefined }];
    case "approval.denied":
      return [{ callId: event.callId, text: denial(event), failed: true }];
    case "approval.expired":
      return [
        {
          callId: event.callId,
          text: "Nobody answered the request for approval before it expired, so it was not done.",
          failed: true,
        },
      ];
    case "question.answered":
      return [{ callId: event.callId, text: `@${event.by} answered: ${event.text}`, failed: false }];
    case "child.finished":
      return [
        { callId: event.callId, text: describeOutcome(event.outcome), failed: event.outcome.kind !== "answered" },
      ];
    case "message.received":
    case "sandbox.opened":
    case "sandbox.failed":
    case "model.answered":
    case "model.failed":
    case "approval.granted":
    case "tool.invoked":
    case "pull_request.reviewed":
    case "checks.completed":
    case "pull_request.closed":
    case "run.stop":
    case "run.resume":
    case "run.cancel":
    case "timer.due":
      return [];
  }
}

function denial({ by, reason }: Extract<RunEvent, { type: "approval.denied" }>): string {
  const because = reason ? ` and said why: ${reason}` : " without giving a reason";
  return `@${by} denied this call${because}. It was not done. Do not try the same again; take the reason into account.`;
}

function said(event: RunEvent): ModelMessage[] {
  if (event.type === "message.received") return [{ role: "user", content: contentOf(event) }];
  if (event.type === "run.resume")
    return [{ role: "user", content: `@${event.by} stopped you and now wants you to go on.` }];
  if (event.type === "pull_request.reviewed") return [{ role: "user", content: event.text }];
  if (event.type === "checks.completed" && !event.passed) return [{ role: "user", content: event.text }];
  if (event.type === "tool.invoked") return [{ role: "user", content: invocation(event) }];
  return [];
}

type ReceivedMessage = Extract<RunEvent, { type: "message.received" }>;

function contentOf(message: ReceivedMessage): UserContent {
  const { attachments = [] } = message;
  const text = textOf(message);
  if (attachments.length === 0) return text;
  return [...(text.trim() === "" ? [] : [{ type: "text" as const, text }]), ...attachments.map(attached)];
}

function textOf({ kind, text, by }: ReceivedMessage): string {
  switch (kind) {
    case "request":
      return text === "" ? `@${by} asks you to work on this.` : `@${by} asks you: ${text}`;
    case "comment":
      return `@${by} says: ${text}`;
    case "prompt":
    case "context":
      return text;
  }
}

/** Few providers take text as a file. */
function attached({ name, mediaType, data }: Attachment): Exclude<UserContent, string>[number] {
  if (isTextMediaType(mediaType)) return { type: "text", text: `The attached file ${name}:\n${data}` };
  return { type: "file", data, mediaType, filename: name };
}

/** The person's deed, and what the tool said of it: data, like every result. */
function invocation({ by, tool, args, result }: Extract<RunEvent, { type: "tool.invoked" }>): string {
  const end = result.error ? "It failed" : "It is done, in your sandbox";
  const said = wrapUntrusted(truncateText(result.llmContent, longestInvocation), `the result of ${tool}`);
  return `@${by} ran ${tool} with ${truncateText(canonicalJson(args), longestInvocation)}. ${end}:\n${said}`;
}

function part({ callId, tool }: ModelCall, text: string, failed: boolean): ToolResultPart {
  const output = { type: failed ? ("error-text" as const) : ("text" as const), value: text };
  return { type: "tool-result", toolCallId: callId, toolName: tool, output };
}

function interrupted(
  { callId, tool }: ModelCall,
  { by, reason }: Extract<RunEvent, { type: "run.stop" }>,
): ToolResultPart {
  const message = reason
    ? `The run was stopped before this call was done. ${reason}`
    : `@${by} stopped the run before this call was done.`;
  const value = { type: "interrupted", message };
  return { type: "tool-result", toolCallId: callId, toolName: tool, output: { type: "error-json", value } };
}
