/**
 * Generates `docs/reference.md` and `docs/worker.schema.json`. `test/reference.test.ts` fails if they are out of date.
 *
 * usage: node scripts/generate-reference.ts
 */
import { globSync, readFileSync, writeFileSync } from "node:fs";
import { asSchema, type JSONSchema7 } from "ai";
import { z } from "zod";
import { DeploymentPolicy } from "#config/deployment-policy.ts";
import { Environment } from "#config/environment.ts";
import { RepositorySettings, settingsPath } from "#config/repository-settings.ts";
import type { NamedTool } from "#domain/tool.ts";
import { WorkerDefinition } from "#domain/worker.ts";
import { createMemoryWorkspace } from "#sandbox/create-memory-workspace.ts";
import type { GitSandbox } from "#sandbox/sandbox.ts";
import { exportedName, type MetricName, metrics } from "#telemetry/metrics.ts";
import { helpText } from "#terminal/golem/help.ts";
import { toolsets } from "#toolsets/registry.ts";
import type { ToolServices, Toolset } from "#toolsets/toolset.ts";
import { runCommands } from "#ui/run-commands.ts";

/** Descriptions of `needsApproval` functions, by tool. Generation fails for a tool without one. */
const approvalRules: Record<string, string> = {
  git_merge: "asks, except for the branch the run started from",
  run_code: "asks if the code has network",
  write_file: "asks where the zone asks",
  edit_file: "asks where the zone asks",
  apply_patch: "asks to delete a file, unless the zone decides, and where the zone asks",
  delete_file: "asks, unless the zone decides",
  move_file: "asks to overwrite a file, unless the zone decides",
  undo: "asks where the zone asks",
  shell: "commands that only read files of the repository do not ask; the rest asks, unless `rules` says otherwise",
  install_package: "as configured by `install`; default: asks",
  web_fetch: "hosts in `allow` do not ask; for others, `others` decides; default: asks",
  open_pull_request: "asks, unless `approval` says otherwise; a change of a protected file always asks",
  update_pull_request:
    "asks, unless `approval` says otherwise; a change of a protected file or of someone's pull request always asks",
  reply_to_review: "asks, unless `approval` says otherwise",
  request_review: "asks, unless `approval` says otherwise",
  create_review: "asks, unless `approval` says otherwise",
  add_labels: "asks, unless `approval` says otherwise",
  reply: "asks, unless `approval` says otherwise",
};

/** Descriptions of fields that have none in their schema, by field name or, to be specific, `parent.field`. */
const fieldDescriptions: Record<string, string> = {
  name: "The name, as in `/run <name>`; the file is named after it.",
  description: "One sentence, for people and for workers that may call this one.",
  toolsets: "The toolsets it may use, each with its settings.",
  sandbox: "The files it may access.",
  "sandbox.readonly": "Nothing can be written.",
  "sandbox.zones": "Folders with their own rules.",
  "zones.name": "The name, which is also the top-level folder if there is no `path`.",
  "zones.mode": "`ro`: files can only be read.",
  "zones.approval": "Approval rules for files of the zone.",
  limits: "Upper bounds of a run.",
  "limits.steps": "Model calls.",
  "limits.tokens": "Tokens, input and output together.",
  max_context_tokens: "The size of the context that the worker uses.",
  allow_empty_input: "True if programs may run it without a task.",
  attachment_policy: "Attached files it takes: those of the issue, of a program and of a call by another worker.",
  "server_side_tools.config": "Settings of the search.",
  blocked_domains: "Searches everything but these domains and their subdomains.",
  "approval.default": "For tools that `tools` does not name.",
  "approval.tools": "By the name of a tool.",
  "reading.approval": "Default: `preApproved`.",
  max_timeout: "The maximum timeout that a call may request, in seconds.",
  allow_http: "True if addresses without TLS may be fetched.",
  servers: "The servers by name: `url` and `headers`, or `command`, `args` and `env`.",
};

/** Renders docs/reference.md. */
export async function renderReference(): Promise<string> {
  const sections = [
    "# Reference\n\nGenerated from the code by `node scripts/generate-reference.ts`. Do not edit.",
    renderCommands(),
    await renderTools(),
    renderFields(
      "Worker fields",
      "The front matter of a `.worker` file: [how to write a worker](workers.md).",
      workerSchema(),
    ),
    renderFields(
      "Repository settings",
      `\`${settingsPath}\` on the default branch.`,
      describeFields(toJsonSchema(RepositorySettings), docsIn("src/config/repository-settings.ts")),
    ),
    renderFields(
      "Deployment policy",
      "The file that `GOLEM_FORGE_POLICY` names.",
      describeFields(toJsonSchema(DeploymentPolicy), docsIn("src/config/deployment-policy.ts")),
    ),
    renderEnvironment(),
    renderMetrics(),
  ];
  return `${sections.join("\n\n")}\n`;
}

function renderMetrics(): string {
  const rows = (Object.keys(metrics) as MetricName[]).map((name) => {
    const { kind, labels, description } = metrics[name];
    const type = kind === "sum" ? "counter" : kind;
    return `| \`${exportedName(name)}\` | ${type} | ${labels.map((label) => `\`${label}\``).join(", ")} | ${description} |`;
  });
  return `## Metrics

On \`/metrics\`, and exported over OTLP without \`_total\`. See [operations](operations.md#metrics). The AI SDK adds
\`gen_ai_client_inference_duration\`, a histogram of the seconds of each model request.

| metric | type | labels | description |
|---|---|---|---|
${rows.join("\n")}`;
}

/** Creates the JSON Schema of a worker's front matter, for editors. */
export function workerSchema(): JSONSchema7 {
  const schema = toJsonSchema(WorkerDefinition.omit({ instructions: true }));
  const described = describeFields(schema, {
    ...docsIn("src/domain/worker.ts"),
    ...docsIn("src/domain/worker.ts"),
  });
  const settings = Object.fromEntries(
    toolsets.flatMap((toolset) =>
      [toolset.name, ...(toolset.aliases ?? [])].map((name) => [name, schemaOfSettings(toolset)]),
    ),
  ) as Record<string, JSONSchema7>;
  const toolsetsField: JSONSchema7 = { type: "object", properties: settings, additionalProperties: false, default: {} };
  return {
    ...described,
    title: "The front matter of a Golem Forge worker",
    properties: { ...described.properties, toolsets: toolsetsField },
  };
}

function toJsonSchema(schema: z.ZodType, io: "input" | "output" = "input"): JSONSchema7 {
  return z.toJSONSchema(schema, { io, unrepresentable: "any", target: "draft-7" }) as JSONSchema7;
}

/** Returns the schema of a toolset's settings or, if they are a list, of one item. */
function settingsOf({ name, config }: Toolset): JSONSchema7 {
  const { $schema: _, ...schema } = toJsonSchema(config);
  const element = toJsonSchema(config, "output").items as JSONSchema7 | undefined;
  const docs = globSync(["src/toolsets/registry.ts", `src/toolsets/${name.replace("_", "-")}/*.ts`]).map(docsIn);
  return describeFields(element ?? schema, Object.assign({}, ...docs));
}

function schemaOfSettings(toolset: Toolset): JSONSchema7 {
  const settings = settingsOf(toolset);
  const list: JSONSchema7[] = toolset.name === "external" ? [{ type: "array", items: settings }] : [];
  return { anyOf: [settings, ...list, { type: "null" }] };
}

/** Returns the docstrings of the properties in a file, by name. */
function docsIn(file: string): Record<string, string> {
  const source = readFileSync(file, "utf8");
  const found = source.matchAll(/^\s+\/\*\*(?:\s+\*)?\s+((?:(?!\*\/)[\s\S])*?)\s*\*\/\n\s+(\w+)\??:/gm);
  return Object.fromEntries([...found].map(([, text = "", name = ""]) => [name, text.replace(/\s*\n\s*\*\s*/g, " ")]));
}

/** Adds descriptions to the fields: from `fieldDescriptions` or from the docstrings of the source. */
function describeFields(schema: JSONSchema7, docs: Record<string, string>, parent = ""): JSONSchema7 {
  const properties = Object.entries(schema.properties ?? {}).map(([name, given]) => {
    const field = describeFields(given as JSONSchema7, docs, name);
    const text = fieldDescriptions[`${parent}.${name}`] ?? field.description ?? docs[name] ?? fieldDescriptions[name];
    return [name, text === undefined ? field : { ...field, description: text }];
  });
  return {
    ...schema,
    ...(schema.properties && { properties: Object.fromEntries(properties) }),
    ...(schema.items && { items: describeFields(schema.items as JSONSchema7, docs, parent) }),
  };
}

function renderCommands(): string {
  const rows = Object.values(runCommands).map(({ usage, help: text, frontEnds }) => [
    `\`/${usage}\``,
    text,
    frontEnds.join(", "),
  ]);
  return [
    "## Commands\n\nIn a comment, on its first line. Some are also buttons of the run page.",
    table(["command", "what it does", "where"], rows),
    `### golem\n\n\`\`\`\n${helpText().trim()}\n\`\`\``,
  ].join("\n\n");
}

async function renderTools(): Promise<string> {
  const sections = await Promise.all(toolsets.map(renderToolset));
  const intro =
    "Under `toolsets:` in a worker file, by name. A zone that blocks or asks applies to every file tool, and protected files (such as workflows and settings of agents) always ask. The deployment's policy names tools that always ask in a repository's own workers.";
  return ["## Toolsets and tools", intro, ...sections].join("\n\n");
}

async function renderToolset(toolset: Toolset): Promise<string> {
  const { name, aliases = [] } = toolset;
  const title = `### ${name}${aliases.length > 0 ? ` (${aliases.join(", ")})` : ""}`;
  const settings = fieldRows(settingsOf(toolset));
  const tools = await openTools(toolset);
  return [
    title,
    settings.length > 0 ? table(["setting", "type", "default", "meaning"], settings) : "No settings.",
    ...(await Promise.all(tools.map(renderTool))),
  ].join("\n\n");
}

/** Opens the tools of a toolset on an empty repository. `custom`, `external` and `mcp` have no tools of their own. */
async function openTools(toolset: Toolset): Promise<NamedTool[]> {
  if (["custom", "external", "mcp"].includes(toolset.name)) return [];
  const workspace = createMemoryWorkspace();
  const sandbox = Object.assign(workspace, { push: undefined }) as unknown as GitSandbox;
  const services = {
    spec: { worker: WorkerDefinition.parse({ name: "worker", instructions: "" }), origin: { thread: 1 } },
    workspace,
    sandbox,
    branch: "golem/1-run",
    history: () => [],
    workers: async () => [{ name: "name_of_a_worker" }],
    sanitize: (text: string) => text,
    onClose: () => {},
  } as unknown as ToolServices;
  const given = toolset.name === "workers" ? { allowed: ["name_of_a_worker"] } : {};
  return toolset.create(toolset.config.parse(given), services);
}

async function renderTool(tool: NamedTool): Promise<string> {
  const { name, description, manualExecution, aliases = [] } = tool;
  const schema = (await asSchema(tool.inputSchema).jsonSchema) as JSONSchema7;
  const callers = { llm: "the model", manual: "people", both: "the model and people" };
  const facts = [
    `Called by ${callers[manualExecution?.mode ?? "llm"]}`,
    `approval: ${approvalOf(tool)}`,
    ...(aliases.length > 0 ? [`also called ${aliases.map((alias) => `\`${alias}\``).join(", ")}`] : []),
    ...resultsOf(tool),
  ];
  const rows = fieldRows(schema, { depth: 0 });
  return [
    `#### \`${name}\``,
    cell(description),
    `${facts.join("; ")}.`,
    rows.length > 0 ? table(["parameter", "type", "default", "meaning"], rows) : "No parameters.",
  ].join("\n\n");
}

function approvalOf({ name, needsApproval }: NamedTool): string {
  if (needsApproval === true) return "always asks";
  if (needsApproval === false || needsApproval === undefined) return "never asks";
  const rule = approvalRules[name];
  if (rule === undefined) throw new Error(`scripts/generate-reference.ts has no approval rule for ${name}`);
  return rule;
}

/** A top-level declaration of a toolset. */
interface Declaration {
  file: string;
  name: string;
  text: string;
  /** Matches a use of the name. */
  use: RegExp;
}

let declarations: readonly Declaration[] | undefined;

/** Finds the kinds of a tool's results, in its source and in the functions that it calls: those of its file and any `…Result`. */
function resultsOf(tool: NamedTool): string[] {
  declarations ??= readDeclarations();
  const all = declarations;
  const first = declarationOf(tool, all);
  const reached = new Set(first && [first]);
  for (const { file, text } of reached) {
    const called = all.filter((other) => other.file === file || other.name.endsWith("Result"));
    for (const other of called) if (other.use.test(text)) reached.add(other);
  }
  const kinds = [...reached].flatMap(({ text }) => [...text.matchAll(/\bkind: "([\w.]+)"/g)].map(([, kind]) => kind));
  const known = [...new Set(kinds)].filter((kind) => kind !== undefined && isResultKind(kind));
  return known.length === 0 ? [] : [`result: ${known.map((kind) => `\`${kind}\``).join(" or ")}`];
}

function readDeclarations(): Declaration[] {
  return globSync("src/toolsets/**/*.ts").flatMap((file) =>
    readFileSync(file, "utf8")
      .split(/^(?=(?:export )?(?:async )?(?:function|const|class) )/m)
      .slice(1)
      .map((text) => {
        const name = /(?:function|const|class) ([\w$]+)/.exec(text)?.[1] ?? "";
        return { file, text, name, use: new RegExp(`(?<![\\w.])${name.replace("$", "\\$")}\\b`) };
      }),
  );
}

/** Finds the declaration with the tool's name, which may be a constant in the same file. */
function declarationOf({ name }: NamedTool, all: readonly Declaration[]): Declaration | undefined {
  const constant = all.find((one) => one.text.startsWith(`const ${one.name} = "${name}";`));
  return (
    all.find(({ text }) => text.includes(`name: "${name}"`)) ??
    all.find(({ file, text }) => file === constant?.file && text.includes(`name: ${constant?.name},`))
  );
}

/** True for a result kind: a tool's own kinds contain a dot, the others are in src/domain/result.ts. */
function isResultKind(kind: string): boolean {
  return kind.includes(".") || readFileSync("src/domain/result.ts", "utf8").includes(`literal("${kind}")`);
}

function renderFields(title: string, intro: string, schema: JSONSchema7): string {
  return [`## ${title}`, intro, table(["field", "type", "default", "meaning"], fieldRows(schema))].join("\n\n");
}

/** Returns a row for each field, including fields of nested objects up to a depth. */
function fieldRows(schema: JSONSchema7, { depth = 2, prefix = "" } = {}): string[][] {
  const required = schema.required ?? [];
  return Object.entries(schema.properties ?? {}).flatMap(([name, given]) => {
    const field = given as JSONSchema7;
    const fallback = required.includes(name) ? "required" : field.default === undefined ? "" : code(field.default);
    const row = [`\`${prefix}${name}\``, typeOf(field), fallback, cell(field.description ?? "")];
    const isToolsets = prefix === "" && name === "toolsets" && field.properties !== undefined;
    if (depth === 0 || isToolsets) return [row];
    const inner = field.type === "array" ? (field.items as JSONSchema7 | undefined) : field;
    const below = `${prefix}${name}${field.type === "array" ? "[]" : ""}.`;
    return [row, ...(inner ? fieldRows(inner, { depth: depth - 1, prefix: below }) : [])];
  });
}

function typeOf(field: JSONSchema7): string {
  if (field.const !== undefined) return code(field.const);
  if (field.enum) return field.enum.map(code).join(", ");
  const options = field.anyOf ?? field.oneOf;
  if (options) return [...new Set(options.map((option) => typeOf(option as JSONSchema7)))].join(" or ");
  if (field.type === "array") return `list of ${typeOf((field.items ?? {}) as JSONSchema7)}`;
  const bounds = [
    field.minimum !== undefined && field.minimum > Number.MIN_SAFE_INTEGER && `at least ${field.minimum}`,
    field.exclusiveMinimum !== undefined && `above ${field.exclusiveMinimum}`,
    field.maximum !== undefined && field.maximum < Number.MAX_SAFE_INTEGER && `at most ${field.maximum}`,
  ].filter(Boolean);
  return [[field.type ?? "any value"].flat().join(" or "), ...bounds].join(", ");
}

function renderEnvironment(): string {
  const docs = docsIn("src/config/environment.ts");
  const schema = toJsonSchema(Environment);
  const rows = Object.entries(Environment.shape).map(([name, variable]) => {
    const { default: fallback } = (schema.properties?.[name] ?? {}) as JSONSchema7;
    const initial = fallback ?? (variable as z.ZodType).safeParse(undefined).data;
    const isRequired = !(variable as z.ZodType).safeParse(undefined).success;
    return [
      `\`${name}\``,
      isRequired ? "required" : initial === undefined ? "" : code(initial),
      [cell(docs[name] ?? ""), cell(variable.description ? `Format: ${variable.description}.` : "")]
        .filter(Boolean)
        .join(" "),
    ];
  });
  return [
    "## Environment variables",
    "[Configuration](configuration.md) explains them.",
    table(["variable", "default", "meaning"], rows),
  ].join("\n\n");
}

function table(head: string[], rows: string[][]): string {
  const lines = rows.map((cells) => `| ${cells.join(" | ")} |`);
  return [`| ${head.join(" | ")} |`, `|${head.map(() => "---|").join("")}`, ...lines].join("\n");
}

function code(value: unknown): string {
  return `\`${typeof value === "string" && value !== "" ? value : JSON.stringify(value)}\``;
}

function cell(text: string): string {
  return text.replaceAll("|", "\\|").replaceAll("\n", " ");
}

if (import.meta.main) {
  writeFileSync("docs/reference.md", await renderReference());
  writeFileSync("docs/worker.schema.json", `${JSON.stringify(workerSchema(), null, 2)}\n`);
}
