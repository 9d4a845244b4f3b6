import { type Paint, plain } from "./paint.ts";
import type { Prompter } from "./prompter.ts";
import { linesOf, oneLine, paintDiff } from "./render-value.ts";

/** A call somebody has to agree to, as a terminal shows it. */
export interface ShownRequest {
  description: string;
  toolName?: string;
  toolArgs?: Record<string, unknown>;
  preview?: string;
  /** The workers from the root to the one that asks. */
  path: readonly string[];
  risk?: string;
}

export type Answer = { approved: true; remember: "none" | "session" } | { approved: false; reason?: string };

const maxValueLength = 57;
const previewLines = 60;
const rule = "─".repeat(60);

/**
 * Asks at the prompt until the answer is one: y(es), n(o), a(lways) or r(emember) for the session, or d(eny) with a
 * reason. Everything else, an empty line and the end of the input deny: nothing is approved by accident.
 */
export async function askApproval(
  request: ShownRequest,
  { prompter, paint, signal }: { prompter: Prompter; paint: Paint; signal?: AbortSignal },
): Promise<Answer> {
  const question = `${describe(request, paint)}\nApprove? [y]es / [n]o / [a]lways for this session / [d]eny with a reason: `;
  const typed = await prompter.ask(question, signal && { signal });
  if (typed === undefined) return { approved: false, reason: "Nobody answered." };

  const [, word = "", rest = ""] = /^\s*(\S*)\s*(.*?)\s*$/s.exec(typed) ?? [];
  switch (word.toLowerCase()) {
    case "y":
    case "yes":
      return { approved: true, remember: "none" };
    case "a":
    case "always":
    case "r":
    case "remember":
      return { approved: true, remember: "session" };
    case "d":
    case "deny": {
      const reason = rest || (await prompter.ask("Why? ", signal && { signal }))?.trim();
      return { approved: false, ...(reason && { reason }) };
    }
    case "n":
    case "no":
      return { approved: false, ...(rest && { reason: rest }) };
    case "":
      return { approved: false };
    default:
      prompter.print("That is no yes, so it is a no.\n");
      return { approved: false, reason: typed.trim() };
  }
}

function describe({ description, toolName, toolArgs = {}, preview, path, risk }: ShownRequest, paint: Paint): string {
  const args = Object.entries(toolArgs).map(([key, value]) => `  ${oneLine(key)}: ${short(value)}`);
  return [
    paint("yellow", rule),
    paint("bold", "APPROVAL REQUEST") + (risk === undefined ? "" : paint("gray", ` (risk: ${plain(risk)})`)),
    ...(path.length > 1 ? [`Worker: ${path.map(oneLine).join(" -> ")}`] : []),
    ...(toolName === undefined ? [] : [`Tool: ${oneLine(toolName)}`]),
    `Description: ${oneLine(description)}`,
    ...(args.length > 0 ? ["Arguments:", ...args] : []),
    ...(preview?.trim() ? ["What it would change:", ...previewOf(preview, paint)] : []),
    paint("yellow", rule),
  ].join("\n");
}

function previewOf(preview: string, paint: Paint): string[] {
  const lines = linesOf(preview);
  const shown = lines.slice(0, previewLines).map((line) => `  ${paintDiff(line, paint)}`);
  const rest = lines.length - previewLines;
  return rest > 0 ? [...shown, `  … ${rest} more lines`] : shown;
}

function short(value: unknown): string {
  const text = oneLine(typeof value === "string" ? value : (JSON.stringify(value) ?? ""));
  return text.length > maxValueLength + 3 ? `${text.slice(0, maxValueLength)}...` : text;
}
