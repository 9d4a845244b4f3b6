import { isDeepStrictEqual } from "node:util";
import { type Approval, canonicalJson, coversCall } from "#domain/approval.ts";
import { abandonOnAbort, EventLoopYielder, isTemporary } from "#domain/async-work.ts";
import { BlockedError, messageOf, ToolError } from "#domain/errors.ts";
import type { ModelCall } from "#domain/events.ts";
import { type Preview, type PreviewSection, previewLength } from "#domain/preview.ts";
import type { ToolResult } from "#domain/result.ts";
import type { OpenCall } from "#domain/run.ts";
import type { NamedTool, ToolContext } from "#domain/tool.ts";
import type { ToolSchema } from "#domain/tool-schema.ts";
import type { Workspace } from "#domain/workspace.ts";
import { closestMatch } from "#text/closest-match.ts";
import { redactDeep } from "#text/redact.ts";
import { toPreview } from "#ui/request-blocks.ts";
import { validateArguments } from "./call-arguments.ts";
import { failedResult, interruptedResult, resultOfError } from "./tool-result.ts";
import type { FinishedCall } from "./toolset.ts";

/** The context in which the runtime reviews and runs a call. */
export type CallContext = Pick<
  ToolContext,
  "abortSignal" | "messages" | "run" | "idempotencyKey" | "output" | "approved"
> & {
  /** Default: the model, which cannot call manual tools. */
  invokedBy?: "model" | "person";
};

/** A call to a tool that its caller may use, with arguments that the tool accepts. */
export interface PreparedCall {
  call: ModelCall;
  invokedBy: "model" | "person";
  tool: NamedTool;
  /** The arguments as the tool receives them, such as with text parsed into a date. */
  value: unknown;
  /** The arguments as they are shown, stored and compared. */
  args: unknown;
  outputSchema: ToolSchema | undefined;
}

export interface ToolSchemas {
  input: ToolSchema;
  output: ToolSchema | undefined;
}

/** The decision on a call before it runs. `args` are the validated arguments, which are shown, stored and executed. */
export type CallReview =
  /** `approvalId` is the session approval that covers the call. */
  | { kind: "allow"; answeredBy: OpenCall["answeredBy"]; args: unknown; approvalId?: string }
  | { kind: "ask"; answeredBy: OpenCall["answeredBy"]; args: unknown; reason: string; preview: Preview | undefined }
  | { kind: "refuse"; result: ToolResult };

/** The tools of a run, and the state that decides whether their calls may run. */
export interface ReviewState {
  /** The tools that the model and that people may call. */
  callable: Record<"model" | "person", readonly NamedTool[]>;
  offered: readonly NamedTool[];
  find(name: string): NamedTool | undefined;
  schemas: ReadonlyMap<NamedTool, ToolSchemas>;
  workspace: Workspace;
  repeated: RepeatedCalls;
  /** Tools that always need approval, regardless of their settings. */
  alwaysAsk: readonly string[];
  /** Removes what must not be posted in a request. */
  redact(text: string): string;
  /** The calls that are validated but not yet executed, by call ID. */
  prepared: Map<string, PreparedCall>;
}

/** Decides whether a call runs, needs approval, or is refused. Never throws. */
export async function reviewCall(
  state: ReviewState,
  call: ModelCall,
  context: CallContext,
  remembered: readonly Approval[],
): Promise<CallReview> {
  const review = async () => {
    const prepared = await prepareCall(state, call, context);
    if ("refused" in prepared) return refuse(prepared.refused);
    // People may repeat a call as often as they like.
    const isRedundant = prepared.invokedBy === "model" && state.repeated.isRedundant(prepared, context.run.step);
    return isRedundant ? refuse(redundant(prepared)) : decide(state, prepared, context, remembered);
  };
  try {
    const outcome = await abandonOnAbort(review, context.abortSignal);
    return outcome.abandoned ? refuse(interruptedResult(call.tool, { started: false })) : outcome.value;
  } catch (error) {
    // The effect is tried again.
    if (isTemporary(error)) throw error;
    return refuse(resultOfError(error));
  }
}

/** Finds the tool and validates the arguments, once per call. `refused` tells the model how to correct the call. */
export async function prepareCall(
  state: ReviewState,
  call: ModelCall,
  { invokedBy = "model" }: Pick<CallContext, "invokedBy">,
): Promise<PreparedCall | { refused: ToolResult }> {
  const known = state.prepared.get(call.callId);
  if (known && isSameCall(known, call) && known.invokedBy === invokedBy) return known;

  const tool = state.find(call.tool);
  const { offered, callable } = state;
  if (!tool) return { refused: unknownTool(call.tool, invokedBy === "model" ? offered : callable.person) };
  if (!callable[invokedBy].includes(tool)) {
    return { refused: invokedBy === "model" ? manualTool(tool) : modelTool(tool) };
  }

  const schemas = state.schemas.get(tool);
  if (!schemas) throw new Error(`The schemas of ${tool.name} were never compiled.`);
  const validated = await validateArguments(tool.name, schemas.input, call);
  if (!validated.valid) return { refused: validated.result };

  const { value, args } = validated;
  const prepared = { call, invokedBy, tool, value, args, outputSchema: schemas.output };
  state.prepared.set(call.callId, prepared);
  return prepared;
}

/** Providers may reuse a call's ID, so its tool and arguments are compared as well. */
function isSameCall({ call: known, args }: PreparedCall, call: ModelCall): boolean {
  if (known.tool !== call.tool) return false;
  if (isDeepStrictEqual(call.args, args)) return true;
  return isDeepStrictEqual(call.args, known.args) && call.parseError === known.parseError;
}

function refuse(result: ToolResult): CallReview {
  return { kind: "refuse", result };
}

function redundant({ tool }: PreparedCall): ToolResult {
  const message = `Redundant tool call: ${tool.name} was already called with the same arguments in this turn.`;
  return failedResult(message, {
    code: "REDUNDANT_CALL",
    type: "validation_error",
    suggestion: "Use the result of the first call.",
  });
}

function unknownTool(name: string, reachable: readonly NamedTool[]): ToolResult {
  const near = closestMatch(
    name,
    reachable.flatMap((tool) => [tool.name, ...(tool.aliases ?? [])]),
  );
  const names = reachable.map((tool) => tool.name);
  const list = names.length > 0 ? `Available tools: ${names.join(", ")}.` : "No tools are available.";
  return failedResult(`Unknown tool: ${name}.`, {
    code: "UNKNOWN_TOOL",
    type: "validation_error",
    suggestion: near ? `Did you mean ${near}? ${list}` : list,
    details: { requested_tool: name, available_tools: names },
  });
}

function manualTool({ name }: NamedTool): ToolResult {
  return failedResult(`${name} is a manual tool: only people can call it. The call was refused and recorded.`, {
    code: "MANUAL_TOOL",
    suggestion: `Explain in your answer why ${name} should be called, so that a person can do it.`,
  });
}

function modelTool({ name }: NamedTool): ToolResult {
  return failedResult(`${name} can be called only by the worker.`, {
    code: "PERMISSION_DENIED",
    suggestion: "Ask the worker for it in a comment.",
  });
}

async function decide(
  state: ReviewState,
  prepared: PreparedCall,
  callContext: CallContext,
  remembered: readonly Approval[],
): Promise<CallReview> {
  const { tool, value, args } = prepared;
  const { context, close } = openToolContext(state.workspace, prepared.call, callContext);
  // Nothing may be changed before the call is allowed.
  close();

  const answeredBy = tool.answeredBy?.kind ?? "tool";
  const need = await approvalNeed(tool, value, context);
  if (need.kind === "refused") return refuse(need.result);
  const names = [tool.name, ...(tool.aliases ?? [])];
  if (need.kind === "none" && !state.alwaysAsk.some((name) => names.includes(name)))
    return { kind: "allow", answeredBy, args };

  const shown = await previewOf(tool, value, context);
  if (shown.kind === "refused") return refuse(shown.result);
  const length = shown.preview ? previewLength(shown.preview) : 0;
  if (length > maxPreviewLength) return refuse(tooLong(tool.name, length));
  const preview = shown.preview && (await hideSecrets(shown.preview, args, state.redact));
  if (hidesTooMuch(tool, args, preview, state.redact)) return refuse(unshowable(tool));
  const known = remembered.find((approval) => coversCall(approval, { tool: tool.name, args, preview }));
  if (known) return { kind: "allow", answeredBy, args, approvalId: known.id };
  const reason = approvalReason(prepared, callContext, need.kind === "asked" ? need.ruleFailure : undefined);
  return { kind: "ask", answeredBy, args, reason, preview };
}

/** More than any front end shows. Each front end has its own limit. */
const maxPreviewLength = 600_000;

/** The result of a call that needs approval, and that is too long for people to read it. */
export function tooLong(tool: string, characters: number): ToolResult {
  const count = characters.toLocaleString("en-US");
  return failedResult(`A person has to approve ${tool}, and it is too long to show: ${count} characters.`, {
    code: "TOO_LARGE",
    suggestion: "Split it into several calls. A push contains only the files that git_stage names.",
  });
}

/** Hides what must not be posted: the content of files, of which path, mode, blob id and size are kept, and arguments. */
async function hideSecrets(preview: Preview, args: unknown, redact: ReviewState["redact"]): Promise<Preview> {
  const loop = new EventLoopYielder();
  const sections: PreviewSection[] = [];
  for (const section of preview.sections) {
    if (loop.isDue) await loop.turn();
    const isHidden = section.kind === "file" && redact(section.diff) !== section.diff;
    sections.push(isHidden ? { kind: "hidden-file", change: section.change, reason: "contains a secret" } : section);
  }
  return { ...preview, sections, ...(holdsSecret(args, redact) && { hidesArguments: true }) };
}

/**
 * True if people could not see what they approve, because it looks like a secret. An argument may, if the preview shows what
 * becomes of it: a text that is posted without it, or a file that is listed without its content.
 */
function hidesTooMuch(
  { postsWithoutSecrets = false }: NamedTool,
  args: unknown,
  preview: Preview | undefined,
  redact: ReviewState["redact"],
): boolean {
  const sections = preview?.sections ?? [];
  const texts = sections.map((section) => (section.kind === "text" ? section.text : section.change.path));
  if (texts.some((text) => redact(text) !== text)) return true;
  const hidesFile = sections.some(
    (section) => section.kind === "hidden-file" && section.reason === "contains a secret",
  );
  return !hidesFile && !(postsWithoutSecrets && sections.length > 0) && holdsSecret(args, redact);
}

/** Checks the text both as JSON and as it is: the characters before a token affect whether it is recognized. */
function holdsSecret(args: unknown, redact: ReviewState["redact"]): boolean {
  const json = canonicalJson(args);
  return redact(json) !== json || canonicalJson(redactDeep(args, redact)) !== json;
}

function unshowable({ name }: NamedTool): ToolResult {
  return failedResult(
    `${name} needs approval, and its text holds what looks like a secret, which must not be posted.`,
    {
      code: "INVALID_ARGUMENTS",
      suggestion: "Leave the secret out, and call it again.",
    },
  );
}

type Refused = { kind: "refused"; result: ToolResult };

async function approvalNeed(
  tool: NamedTool,
  value: unknown,
  context: ToolContext,
): Promise<{ kind: "none" } | { kind: "asked"; ruleFailure?: string } | Refused> {
  // Secure by default: a tool needs approval unless it says otherwise.
  const { needsApproval = true } = tool;
  try {
    const needed = typeof needsApproval === "function" ? await needsApproval(value, context) : needsApproval;
    // Only an explicit false skips approval; a rule that returns nothing has not decided.
    return needed === false ? { kind: "none" } : { kind: "asked" };
  } catch (error) {
    if (error instanceof BlockedError) return { kind: "refused", result: blocked(tool, error) };
    if (error instanceof ToolError) return { kind: "refused", result: resultOfError(error) };
    return { kind: "asked", ruleFailure: messageOf(error) };
  }
}

function blocked({ name }: NamedTool, { reason }: BlockedError): ToolResult {
  return failedResult(`${name} is blocked by policy: ${reason}`, {
    code: "BLOCKED",
    suggestion: "This cannot be approved. Find another way, or report that it cannot be done.",
  });
}

/** Returns the preview of a call. Refuses a call whose preview fails: nobody could see what it would do. Throws the error of an outage. */
async function previewOf(
  tool: NamedTool,
  value: unknown,
  context: ToolContext,
): Promise<{ kind: "shown"; preview: Preview | undefined } | Refused> {
  try {
    return { kind: "shown", preview: toPreview(await tool.preview?.(value, context)) };
  } catch (error) {
    if (isTemporary(error)) throw error;
    return { kind: "refused", result: resultOfError(error) };
  }
}

function approvalReason({ tool, value }: PreparedCall, { run }: CallContext, ruleFailure: string | undefined): string {
  const reason = ownReason(tool, value) ?? `${run.worker} wants to call ${tool.name}.`;
  return ruleFailure === undefined ? reason : `${reason} The tool's own approval rule failed: ${ruleFailure}`;
}

function ownReason(tool: NamedTool, value: unknown): string | undefined {
  try {
    return tool.approvalReason?.(value);
  } catch {
    return undefined;
  }
}

/**
 * Opens the context in which a tool handles one call. Its sandbox can be read at any time but changed only until
 * `close`, so that work left running by a tool cannot change files during a later call.
 */
export function openToolContext(
  workspace: Workspace,
  { callId }: { callId: string },
  { invokedBy: _, ...context }: CallContext,
): { context: ToolContext; close(): void } {
  let isOpen = true;

  async function whileOpen<T>(change: () => Promise<T>): Promise<T> {
    if (isOpen) return change();
    throw new ToolError("The sandbox is read-only outside of the tool's own call.", {
      code: "PERMISSION_DENIED",
      suggestion: "Change files only in execute, and wait for the changes before it returns.",
    });
  }

  const sandbox: Workspace = {
    resolve: (path) => workspace.resolve(path),
    exists: (path) => workspace.exists(path),
    stat: (path) => workspace.stat(path),
    read: (path) => workspace.read(path),
    readBytes: (path) => workspace.readBytes(path),
    write: (path, content, options) => whileOpen(() => workspace.write(path, content, options)),
    remove: (path, options) => whileOpen(() => workspace.remove(path, options)),
    move: (from, to, options) => whileOpen(() => workspace.move(from, to, options)),
    list: (path, options) => workspace.list(path, options),
    paths: () => workspace.paths(),
    changes: () => workspace.changes(),
    readBase: (path) => workspace.readBase(path),
    ruleFor: (path) => workspace.ruleFor(path),
  };
  return {
    context: { ...context, toolCallId: callId, sandbox },
    close: () => {
      isOpen = false;
    },
  };
}

/**
 * Detects calls of read-only tools that would return what the model has already read. Repeating a call is worthwhile if
 * another call may have changed something in between, or if the first one failed.
 */
export class RepeatedCalls {
  readonly #history: () => readonly FinishedCall[];
  readonly #find: (name: string) => NamedTool | undefined;
  /** The reads reviewed in the current turn: the ID of the first call with each name and arguments. */
  #turn = { step: 0, reads: new Map<string, string>() };

  /** Takes a `history` that returns every finished call, oldest first. */
  constructor(history: () => readonly FinishedCall[], find: (name: string) => NamedTool | undefined) {
    this.#history = history;
    this.#find = find;
  }

  /** True if this turn already has an equal call. Otherwise, this call is recorded as the first. */
  isRedundant(prepared: PreparedCall, step: number): boolean {
    const { call, tool, args } = prepared;
    if (this.#turn.step !== step) this.#turn = { step, reads: new Map() };
    const { reads } = this.#turn;
    if (!tool.readOnly) {
      reads.clear();
      return false;
    }

    if (this.#lastEqual(prepared)?.step === step) return true;

    const key = `${tool.name} ${canonicalJson(args)}`;
    const first = reads.get(key);
    if (first !== undefined && first !== call.callId && !this.#hasFailed(first)) return true;
    reads.set(key, call.callId);
    return false;
  }

  /** Returns a note for the model if an earlier turn has an equal call. */
  warningFor(prepared: PreparedCall, step: number): string | undefined {
    const before = prepared.tool.readOnly ? this.#lastEqual(prepared) : undefined;
    if (!before || before.step >= step) return undefined;

    const turns = step - before.step;
    const ago = turns === 1 ? "1 turn ago" : `${turns} turns ago`;
    return `Note: the same call of ${prepared.tool.name} was previously made in turn ${before.step} (${ago}), and nothing has changed since. Its result should still be in your context.`;
  }

  #hasFailed(callId: string): boolean {
    return this.#history().findLast((finished) => finished.callId === callId)?.result.error !== undefined;
  }

  #lastEqual({ call, tool, args }: PreparedCall): FinishedCall | undefined {
    // The log may contain the arguments as given or as validated.
    const wanted = new Set([canonicalJson(call.args), canonicalJson(args)]);
    const history = this.#history();
    for (let index = history.length - 1; index >= 0; index -= 1) {
      const finished = history[index];
      if (!finished || finished.callId === call.callId || finished.result.error) continue;

      const finishedTool = this.#find(finished.tool);
      if (finishedTool === tool && !finished.byPerson && wanted.has(canonicalJson(finished.args))) return finished;
      if (!finishedTool?.readOnly) return undefined;
    }
    return undefined;
  }
}
