import type { ToolReply } from "#runtime/front-end.ts";
import { pluralize } from "#text/pluralize.ts";
import type { ManualToolField, ManualToolInfo } from "#ui/manual-tool.ts";
import { runCommands } from "#ui/run-commands.ts";
import { code, codeBlock, details, inline, moreItems, paragraphs } from "./markdown.ts";
import { layOutRequest, renderPrecedingComments } from "./render-request.ts";
import { valueToMarkdown } from "./value-to-markdown.ts";

const maxTools = 100;
const maxFields = 50;
const maxOptions = 20;

const whenDone = {
  model: "when the model has answered",
  tool: "when the running tool is done",
  step: "when the current step is done",
};

export function renderToolReply(reply: ToolReply): string {
  switch (reply.kind) {
    case "result":
      return renderResult(reply);
    case "confirm":
      return renderConfirm(reply);
    case "form":
      return renderForm(reply.tool);
    case "list":
      return renderList(reply.tools);
    case "changes":
      return renderChanges(reply);
    case "queued":
      return `⏳ ${inline(reply.by)}, this runs ${whenDone[reply.behind]}; this comment will then show the result. To run it at once, \`/stop\` the run first; \`/resume\` continues it.`;
    case "refused":
      return paragraphs(
        `${inline(reply.by)}, nothing was run.`,
        ...reply.message.split("\n").map((line) => inline(line, 2_000)),
      );
  }
}

/** Renders the comments to post before the reply. Most replies have none. */
export function renderBeforeToolReply(reply: ToolReply): string[] {
  return reply.kind === "confirm" ? renderPrecedingComments(code(reply.tool), reply) : [];
}

function renderResult({ by, tool, args, result }: Extract<ToolReply, { kind: "result" }>): string {
  const { error, value } = result;
  const head = error ? `### ❌ ${code(tool)} failed` : `### 🔧 ${code(tool)}`;
  const isSaid = error !== undefined && value.kind === "text";
  return paragraphs(
    `${head}, run by ${inline(by)}`,
    error && inline([error.message, error.suggestion].filter(Boolean).join(" "), 2_000),
    !error && value.summary && inline(value.summary, 1_000),
    !isSaid && valueToMarkdown(value),
    renderArguments(args),
  );
}

function renderConfirm({ tool, command, isAltered, ...asked }: Extract<ToolReply, { kind: "confirm" }>): string {
  return paragraphs(
    `### 🔐 ${code(tool)} needs your confirmation`,
    isAltered && "The comment that showed this call was edited or deleted, so it is shown again.",
    layOutRequest(asked).body,
    "Nothing has been run yet. This command runs exactly what is shown here. If its effect has changed by then, the call is shown again:",
    codeBlock(command, "", 10_000),
  );
}

const maxDiffLength = 30_000;

function renderChanges({ by, diff }: Extract<ToolReply, { kind: "changes" }>): string {
  if (diff.trim() === "") return `${inline(by)}, this run has not changed any files yet.`;
  const files = diff.split("\n").filter((line) => line.startsWith("diff --git ")).length;
  const lines = diff.split("\n").length;
  const note =
    diff.length > maxDiffLength
      ? "The diff is truncated. The run page and the pull request show all of it."
      : undefined;
  return paragraphs(
    `### 📄 Changes so far: ${pluralize(files, "file")}`,
    note,
    details(`Diff (${pluralize(lines, "line")})`, codeBlock(diff, "diff", maxDiffLength)),
  );
}

function renderArguments(args: unknown): string | undefined {
  const json = JSON.stringify(args, null, 2) ?? "{}";
  return json === "{}" ? undefined : details("Arguments", codeBlock(json, "json", 5_000));
}

function renderForm({ name, label, description, fields }: ManualToolInfo): string {
  const rows = fields
    .slice(0, maxFields)
    .map(
      (field) =>
        `| ${inline(`--${field.name}`)} | ${describeType(field)} | ${describeNeed(field)} | ${inline(field.description, 300)} |`,
    );
  return paragraphs(
    `### 🔧 ${inline(label)}`,
    inline(description, 1_000),
    rows.length > 0 && ["| option | value | required | description |", "|---|---|---|---|", ...rows].join("\n"),
    moreItems(fields.length - maxFields, "option").join(""),
    "To run it, comment:",
    codeBlock([`/tool ${name}`, ...fields.filter(({ required }) => required).map(example)].join(" "), "", 5_000),
  );
}

function describeType({ type, options = [] }: ManualToolField): string {
  if (type === "select") {
    const rest = options.length > maxOptions ? ", …" : "";
    return `${options
      .slice(0, maxOptions)
      .map((option) => inline(option, 60))
      .join(", ")}${rest}`;
  }
  return type === "boolean" ? "yes or no" : type;
}

function describeNeed({ required, default: preset }: ManualToolField): string {
  if (required) return "yes";
  return preset === undefined ? "no" : `no (default: ${inline(JSON.stringify(preset) ?? "", 100)})`;
}

function example({ name, type, options = [] }: ManualToolField): string {
  switch (type) {
    case "boolean":
      return `--${name}`;
    case "number":
      return `--${name} 1`;
    case "select":
      return `--${name} ${JSON.stringify(options[0] ?? "")}`;
    case "text":
      return `--${name} "…"`;
  }
}

function renderList(tools: readonly ManualToolInfo[]): string {
  if (tools.length === 0) return "This worker has no tools that people can call.";

  const groups = Map.groupBy(tools.slice(0, maxTools), ({ category = "Other" }) => category);
  const lists = [...groups].map(([category, members]) =>
    [`**${inline(category)}**`, "", ...members.map(renderTool)].join("\n"),
  );
  return paragraphs(
    "### 🔧 Tools that people can call",
    ...lists,
    moreItems(tools.length - maxTools, "tool").join(""),
    "`/tool <name> -i` shows a tool's options.",
  );
}

function renderTool({ name, label, description }: ManualToolInfo): string {
  // `/undo` is a command of its own, and not the tool `undo`.
  const command = Object.hasOwn(runCommands, name) ? `/tool ${name}` : `/${name}`;
  return `- ${code(command)} ${inline(label, 100)} — ${inline(description, 200)}`;
}
