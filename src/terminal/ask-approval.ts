import type { Readable, Writable } from "node:stream";
import { deferred } from "#domain/async-work.ts";
import { parseJsonObject } from "#text/json-values.ts";
import { replaceHidden, visibleName, visibleText, wrapMark } from "#text/visible-text.ts";
import { type ApprovalDecision, type ApprovalRequest, withAllNames } from "#ui/approval-controller.ts";
import { type RequestBlock, requestBlocks, toPreview } from "#ui/request-blocks.ts";
import { type AskQuestion, isYes, openPrompter, type Prompter } from "./prompter.ts";
import { createStyle, type Style } from "./style.ts";
import { styleDiffLine } from "./value-to-text.ts";

/** A tool call to show to a person for approval. */
export interface PromptedCall {
  description: string;
  toolName?: string | undefined;
  toolArgs?: Record<string, unknown> | undefined;
  /** A description of what the call would do: laid out in blocks, or as plain text. */
  preview?: string | undefined;
  blocks?: readonly RequestBlock[] | undefined;
  /** Worker names from the root to the worker that makes the call. */
  path: readonly string[];
  risk?: string | undefined;
  /** False if a part of the call is not shown, so that only this one call can be approved. */
  isShownWhole?: boolean | undefined;
}

export type Answer =
  | { approved: true; remember: "none" | "session"; modifiedArgs?: Record<string, unknown> }
  | { approved: false; reason?: string };

const ruleLength = 60;
const maxLines = 2_000;
/** A request shown within this time after another one was withdrawn must first be confirmed with Enter. */
const replacedMs = 5_000;

/** The time at which each prompter's request was withdrawn while it was on screen. */
const withdrawnAt = new WeakMap<Prompter, number>();

/**
 * Shows a request and asks for approval. Only a whole line counts: `y` or `yes` approves the call, `a` or `always` approves
 * equal calls of the session too, `e` or `edit` changes the arguments first, `n`, `no` and `d` (with a reason) deny. Every
 * other line denies, with the line as the reason, so that no sentence can approve. Input typed before the request was shown
 * is ignored, and so is an answer to a request that was withdrawn.
 */
export async function askApproval(
  request: PromptedCall,
  { prompter, style, signal }: { prompter: Prompter; style: Style; signal?: AbortSignal },
): Promise<Answer> {
  return prompter.dialogue(async (ask) => {
    if (isReplacing(prompter)) await confirmReplacement(ask, signal);
    const described = describeRequest(request, style, "─".repeat(Math.min(ruleLength, prompter.columns)));
    if (described.length > maxLines) return { approved: false, reason: tooLong(prompter, described.length) };
    const lines = joinWrapped(described);

    const offersSession = request.isShownWhole !== false;
    const session = offersSession ? " / [a]lways for this session" : "";
    for (let question = `${lines.join("\n")}\n`; ; question = "") {
      const choices = `[y]es / [n]o${session} / [e]dit / [d]eny with a reason`;
      const typed = await ask(`${question}${choices}\nApprove? `, { signal, fresh: true });
      if (typed === undefined) return withdrawn(prompter, signal);
      if (/^(e|edit)$/i.test(typed.trim())) {
        const edited = await editArguments(request, { ask, prompter, signal });
        if (edited) return edited;
        continue;
      }
      const answer = await readAnswer(typed, ask, signal);
      if (offersSession || !answer.approved || answer.remember === "none") return answer;
      prompter.print("A part of this call is not shown, so it cannot be approved for the session.\n");
    }
  });
}

/** Opens an editor on the arguments and asks for approval of the result. Returns undefined if they were not changed or approved. */
async function editArguments(
  { toolArgs = {} }: PromptedCall,
  { ask, prompter, signal }: { ask: AskQuestion; prompter: Prompter; signal: AbortSignal | undefined },
): Promise<Answer | undefined> {
  const before = replaceHidden(JSON.stringify(toolArgs, null, 2), toUnicodeEscapes);
  const after = prompter.canEdit
    ? await prompter.edit(before)
    : await ask("Arguments as a JSON object: ", { signal, verbatim: true });
  if (after === undefined || after.trim() === "" || after.trim() === before) {
    prompter.print("The arguments were not changed.\n");
    return undefined;
  }
  const modifiedArgs = parseJsonObject(after);
  if (!modifiedArgs) {
    prompter.print("This is not a JSON object, so nothing was changed.\n");
    return undefined;
  }
  const shown = joinWrapped(argumentLines({ toolArgs: modifiedArgs })).join("\n");
  const sure = await ask(`Changed arguments\n${shown}\nApprove the call with these? [y]es / [n]o: `, {
    signal,
    fresh: true,
  });
  return isYes(sure) ? { approved: true, remember: "none", modifiedArgs } : undefined;
}

/** Writes hidden characters as JSON escapes, so that an editor shows them and the value stays the same. */
function toUnicodeEscapes(hidden: string): string {
  return hidden.replaceAll(/[^\n]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

async function readAnswer(typed: string, ask: AskQuestion, signal: AbortSignal | undefined): Promise<Answer> {
  const line = typed.trim();
  if (/^(y|yes)$/i.test(line)) return { approved: true, remember: "none" };
  if (/^(a|always|s|session|r|remember)$/i.test(line)) return { approved: true, remember: "session" };
  if (/^(n|no|)$/i.test(line)) return { approved: false };

  const given = /^(?:d|deny|n|no)\b[\s,.:;]*(.*)$/is.exec(line)?.[1];
  const isDenial = given !== undefined;
  const reason = isDenial
    ? given || (await ask("Reason (sent to the worker): ", { signal, verbatim: true }))?.trim()
    : line;
  return { approved: false, ...(reason && { reason }) };
}

function isReplacing(prompter: Prompter): boolean {
  return performance.now() - (withdrawnAt.get(prompter) ?? Number.NEGATIVE_INFINITY) < replacedMs;
}

/** Prevents an answer typed for the withdrawn request from reaching the next one. */
async function confirmReplacement(ask: AskQuestion, signal: AbortSignal | undefined): Promise<void> {
  await ask("The request above was withdrawn, and an answer to it has no effect. Press Enter to see the next one: ", {
    signal,
    verbatim: true,
  });
}

function withdrawn(prompter: Prompter, signal: AbortSignal | undefined): Answer {
  if (!signal?.aborted) return { approved: false, reason: "Nobody answered." };
  withdrawnAt.set(prompter, performance.now());
  return { approved: false, reason: "The request was withdrawn." };
}

function tooLong(prompter: Prompter, lines: number): string {
  const reason = `This request has ${lines.toLocaleString("en-US")} lines, more than a person would read. Make it smaller.`;
  prompter.print(`Denied: ${reason}\n`);
  return reason;
}

function describeRequest(request: PromptedCall, style: Style, rule: string): string[] {
  const { description, toolName, path, risk } = request;
  return [
    style("yellow", rule),
    style("bold", "APPROVAL REQUEST") + (risk === undefined ? "" : style("gray", ` (risk: ${visibleName(risk)})`)),
    ...(path.length > 1 ? [`Worker: ${path.map(visibleName).join(" -> ")}`] : []),
    ...(toolName === undefined ? [] : [`Tool: ${visibleName(toolName)}`]),
    `Description: ${visibleName(description)}`,
    ...argumentLines(request),
    ...blocksOf(request).flatMap((block) => blockLines(block, style)),
    style("yellow", rule),
  ];
}

/** Returns the blocks without the arguments, which are listed by name. */
function blocksOf({ blocks, preview, toolArgs = {} }: PromptedCall): readonly RequestBlock[] {
  const all = blocks ?? requestBlocks({ args: toolArgs, preview: toPreview(preview) });
  return all.filter(({ kind }) => kind !== "arguments");
}

function argumentLines({ toolArgs = {} }: Pick<PromptedCall, "toolArgs">): string[] {
  const args = Object.entries(toolArgs).flatMap(([key, value]) => {
    const text = typeof value === "string" ? value : (JSON.stringify(value, null, 2) ?? "undefined");
    const [first = "", ...rest] = visibleText(text).split("\n");
    return rest.length === 0
      ? [`  ${visibleName(key)}: ${first}`]
      : [`  ${visibleName(key)}:`, ...[first, ...rest].map((line) => `    │ ${line}`)];
  });
  return args.length > 0 ? ["Arguments:", ...args] : [];
}

/** The margin separates the content of a block from this program's own lines. */
function blockLines({ kind, title, details, lines }: RequestBlock, style: Style): string[] {
  const head = details === undefined ? `${title}:` : `${title} (${details}):`;
  return [head, ...lines.map((line) => `  │ ${kind === "diff" ? styleDiffLine(line, style) : line}`)];
}

const continuation = new RegExp(`^ *│ ((?:\\u001b\\[\\d+m)?)[+\\- ]?${wrapMark} `);

/** Joins the parts of wrapped lines: the prompter wraps lines to the width of the terminal. The mark never comes from content. */
function joinWrapped(lines: readonly string[]): string[] {
  const joined: string[] = [];
  for (const line of lines) {
    const found = continuation.exec(line);
    if (found && joined.length > 0) joined.push(`${joined.pop()}${found[1]}${line.slice(found[0].length)}`);
    else joined.push(line);
  }
  return joined;
}

export interface CLIApprovalOptions {
  /** Default: standard input. */
  input?: Readable;
  output?: Writable;
}

/**
 * Creates an approval callback that asks at the prompt: yes, no, always for the session, or deny with a reason. It shares
 * the input with an event CLI adapter of the same streams. Concurrent requests are shown one at a time.
 */
export function createCLIApprovalCallback({
  input = process.stdin,
  output = process.stdout,
}: CLIApprovalOptions = {}): (request: ApprovalRequest) => Promise<ApprovalDecision> {
  return async (request) => {
    const { toolName, toolArgs, description, preview, blocks, isShownWhole, delegationPath } = withAllNames(request);
    const path = delegationPath ?? [];
    const prompter = openPrompter(input, output);
    using _ = deferred(() => prompter.release());
    const shown = { toolName, toolArgs, description, path, preview, blocks, isShownWhole };
    const answer = await askApproval(shown, { prompter, style: createStyle(output) });
    if (answer.approved) return answer;
    return { approved: false, remember: "none", ...(answer.reason !== undefined && { note: answer.reason }) };
  };
}
