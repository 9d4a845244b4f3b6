import { lstatSync } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import { dirname, join, relative } from "node:path";
import { RequestError } from "@octokit/request-error";
import { z } from "zod";
import { createOctokit } from "#config/create-octokit.ts";
import { deferred } from "#domain/async-work.ts";
import { messageOf, UserError } from "#domain/errors.ts";
import type { Triggers } from "#domain/trigger.ts";
import { parseWorker, type WorkerDefinition } from "#domain/worker.ts";
import { findRoot } from "#sandbox/checkout/open-checkout.ts";
import { foldersAbove } from "#sandbox/paths.ts";
import { isolatedSandbox } from "#sandbox/zones.ts";
import {
  type ActionWorkflowOptions,
  actionWorkflowPath,
  baseUrlVariable,
  findWorkflowNames,
  keyVariableOf,
  needsBaseUrl,
  renderActionWorkflow,
} from "#setup/action-workflow.ts";
import { isYes, openPrompter } from "#terminal/prompter.ts";
import { isTerminal, visible, writeWrapped } from "#terminal/style.ts";
import { truncateLine } from "#text/truncate.ts";
import { type CommandContext, exitCodes, parseWords } from "./command-context.ts";
import { codeOf } from "./trusted-code.ts";

const workersFolder = ".github/workers";

/** `golem init`: writes a first worker, or the workflow of the GitHub Action. Returns the next steps for the person. */
export async function init(
  args: readonly string[],
  context: CommandContext,
  readVersion: () => Promise<string>,
): Promise<string> {
  const { positionals, options } = parseWords(args, {
    action: { type: "boolean" },
    model: { type: "string", short: "m" },
    uses: { type: "string" },
    "no-color": { type: "boolean" },
  });
  const model = options.get("model")?.at(-1);
  const uses = options.get("uses")?.at(-1);
  const isAction = options.has("action");
  if (positionals.length > (isAction ? 0 : 1) || ((model ?? uses) !== undefined && !isAction)) {
    throw new UserError(
      "Usage: golem init [name], or golem init --action [--model provider:model] [--uses owner/repo@ref].",
    );
  }
  if (!options.has("action")) return initWorker(positionals[0], context);
  const given = typeof model === "string" ? model : context.env.GOLEM_FORGE_MODEL;
  if (typeof uses === "string" && !/^[\w.-]+\/[\w.-]+@[\w./-]+$/.test(uses)) {
    throw new UserError("--uses must be owner/repo@ref, such as acme/golem-forge@v1.0.0 or a commit after the @.");
  }
  const from = typeof uses === "string" ? { uses } : { version: await readVersion() };
  return initAction({ model: given || "anthropic:claude-sonnet-4-5", from }, context);
}

/** Writes the workflow of the GitHub Action to the checkout. */
async function initAction(
  { model, from }: Pick<ActionWorkflowOptions, "model" | "from">,
  { cwd }: CommandContext,
): Promise<string> {
  const root = await findRoot(cwd);
  const workflows = await findWorkflowNames(root);
  const file = await writeNewFile(root, actionWorkflowPath, {
    text: renderActionWorkflow({ workflows, model, from }),
    cwd,
  });
  const waitsFor = workflows.length > 0 ? `Workers wait for the results of ${workflows.join(", ")}.\n` : "";
  const steps = [
    `Add the model's key to the repository's secrets as ${keyVariableOf(model)}: Settings → Secrets and variables → Actions.`,
    ...(needsBaseUrl(model)
      ? [`Replace the example of ${baseUrlVariable} in the file with the address of the model.`]
      : []),
    'Turn on "Allow GitHub Actions to create and approve pull requests": Settings → Actions → General.',
    "Push the file to the default branch, and comment /run fixer in an issue.",
  ];
  return `Wrote ${relative(cwd, file)}.
${waitsFor}
Next:
${steps.map((step, index) => `  ${index + 1}. ${step}\n`).join("")}`;
}

/** `golem init [name]`: writes a first worker to the checkout. Returns the next steps for the person. */
async function initWorker(name = "helper", { cwd }: CommandContext): Promise<string> {
  const text = template(name);
  parseWorker(text, `${name}.worker`);
  const file = await writeNewFile(await findRoot(cwd), `${workersFolder}/${name}.worker`, { text, cwd });
  return `Wrote ${relative(cwd, file)}.

Validate it after each change with golem check. With GOLEM_FORGE_MODEL and its key set:
  golem run ${name} --dry-run   shows its files and tools
  golem run ${name} "a task"    runs it on this checkout
Once it is on the default branch, /run ${name} in an issue starts it.
`;
}

/**
 * Writes a file of a checkout and the folders above it, and returns its path. Throws a UserError if the file exists, or if one
 * of the folders is a link, which may lead out of the checkout; its path is shown relative to `cwd`.
 */
async function writeNewFile(root: string, path: string, { text, cwd }: { text: string; cwd: string }): Promise<string> {
  const file = join(root, path);
  const isLink = (folder: string) => lstatSync(join(root, folder), { throwIfNoEntry: false })?.isSymbolicLink();
  const link = foldersAbove(path).find(isLink);
  if (link !== undefined) {
    throw new UserError(
      `${relative(cwd, file)} was not written: ${link} is a symbolic link. Replace it with a folder.`,
    );
  }
  await mkdir(dirname(file), { recursive: true });
  await writeFile(file, text, { flag: "wx" }).catch((error: NodeJS.ErrnoException) => {
    throw error.code === "EEXIST" ? new UserError(`${relative(cwd, file)} already exists.`) : error;
  });
  return file;
}

function template(name: string): string {
  return `---
name: ${name}
description: Answers questions about this repository and makes small changes.
# model: anthropic:claude-sonnet-4-5   # default: the model of the deployment
toolsets:
  filesystem: {}
  search: {}
  git: {}
  ask: {}
  # code: {}            # run_tests, run_code, format_code, install_package
  # pull_request: {}    # on GitHub: open and update a pull request
# Edits ask nothing until they leave the sandbox; deleting a file asks. To be asked about edits in one folder:
# sandbox:
#   zones:
#     - name: docs
#       approval: { write: ask }
limits:
  steps: 30
  cost: 1          # US dollars
---
You help the maintainers of this repository.

1. Read what the task is about with grep, glob and read_file before you change anything.
2. Make the smallest change that does what was asked, in the style of the code around it.
3. Say in one or two sentences what you changed, and what you did not check.
`;
}

/** `golem add owner/repo/worker`: shows what the worker may do, asks, and copies its file to the checkout. */
export async function addWorker(args: readonly string[], context: CommandContext): Promise<number> {
  const { positionals, options } = parseWords(args, {
    ref: { type: "string" },
    yes: { type: "boolean" },
    "no-color": { type: "boolean" },
  });
  const [source, stray] = positionals;
  if (stray !== undefined) throw new UserError(`golem add takes one worker, but was also given ${stray}.`);
  const [, owner, repo, name] = /^([\w.-]+)\/([\w.-]+)\/([\w-]+)$/.exec(source ?? "") ?? [];
  if (!owner || !repo || !name) throw new UserError("Name a worker, as in golem add owner/repo/fixer.");

  const root = await findRoot(context.cwd);
  const text = await download({ owner, repo, name, ref: options.get("ref")?.at(-1) }, context);
  const worker = parseWorker(text, `${owner}/${repo}/${workersFolder}/${name}.worker`);
  const path = `${workersFolder}/${name}.worker`;
  const target = join(root, path);
  writeWrapped(
    context.output,
    `${describeGrants(worker, root, target)
      .map((line) => visible(line).replaceAll("\n", " "))
      .join("\n")}\n`,
  );
  if (!options.has("yes") && !(await confirm(context, `Write ${relative(context.cwd, target)}? [y/N] `))) {
    context.output.write("Nothing was written.\n");
    return exitCodes.failed;
  }
  await writeNewFile(root, path, { text, cwd: context.cwd });
  writeWrapped(context.output, `Wrote ${relative(context.cwd, target)}. Read its instructions before you run it.\n`);
  return exitCodes.answered;
}

interface Source {
  owner: string;
  repo: string;
  name: string;
  ref: string | true | undefined;
}

async function download({ owner, repo, name, ref }: Source, { env }: CommandContext): Promise<string> {
  const auth = env.GITHUB_TOKEN || env.GH_TOKEN || undefined;
  const octokit = createOctokit({ auth, baseUrl: env.GITHUB_API_URL });
  const path = `${workersFolder}/${name}.worker`;
  try {
    const { data } = await octokit.rest.repos.getContent({
      owner,
      repo,
      path,
      ...(typeof ref === "string" && { ref }),
      request: { signal: AbortSignal.timeout(20_000) },
    });
    const { content } = z.object({ type: z.literal("file"), content: z.base64() }).parse({
      ...data,
      content: "content" in data ? data.content.replaceAll("\n", "") : undefined,
    });
    return Buffer.from(content, "base64").toString("utf8");
  } catch (error) {
    throw new UserError(describeFailure(error, { source: `${owner}/${repo}`, path, env }), { cause: error });
  }
}

/** Says why a worker file could not be downloaded, and what to do. */
function describeFailure(
  error: unknown,
  { source, path, env }: { source: string; path: string; env: CommandContext["env"] },
): string {
  if (!(error instanceof RequestError)) return `${source} cannot be read: ${messageOf(error)}`;
  if (!error.response) {
    const url = env.GITHUB_API_URL || "https://api.github.com";
    const check = env.GITHUB_API_URL ? "GITHUB_API_URL and your network connection" : "your network connection";
    return `${url} cannot be reached (${error.message}). Check ${check}.`;
  }
  if (error.status !== 404) return `${source} cannot be read: ${error.message}`;
  const hint = env.GITHUB_TOKEN || env.GH_TOKEN ? "" : " To read a private repository, set GITHUB_TOKEN.";
  return `${source} has no file ${path} that you can read.${hint}`;
}

/** Describes what a worker may do, one permission per line. */
function describeGrants(worker: WorkerDefinition, root: string, path: string): string[] {
  const { name, description, model, toolsets, sandbox, setup = [], on, limits } = worker;
  const zones = sandbox?.zones ?? [];
  const outside = {
    name: "files outside all zones",
    mode: sandbox?.readonly ? "ro" : "rw",
    approval: sandbox?.approval,
  };
  const writable = [outside, ...zones].filter(({ mode }) => mode === "rw");
  const unasked = writable.flatMap(({ name: zone, approval }) => {
    const rules = { ...isolatedSandbox, ...approval };
    return (["write", "delete"] as const)
      .filter((kind) => rules[kind] === "preApproved")
      .map((kind) => `${kind} ${zone}`);
  });
  const settings = preApprovedIn(toolsets).map((path) => path.join("."));
  const code = codeOf(root, { worker, path, isOwn: true });
  return [
    `${name}${description ? `: ${description}` : ""}`,
    `  model        ${model ?? "the one that is configured"}`,
    `  toolsets     ${Object.keys(toolsets).join(", ") || "none"}`,
    `  files        ${sandbox?.restrict ?? "the whole repository"}${sandbox?.readonly ? ", read-only" : ""}`,
    `  does not ask ${unasked.length > 0 ? `to ${unasked.join(", to ")}` : "only where its tools never do"}`,
    ...(settings.length > 0 ? [`  pre-approves ${settings.join(", ")}`] : []),
    ...(on ? [`  starts on    ${describeTriggers(on).join("; ") || "nothing"}`] : []),
    ...(setup.length > 0 ? [`  sets up with ${setup.join("; ")}`] : []),
    `  brings code  ${code.length > 0 ? code.join("; ") : "none"}`,
    `  limits       ${limits.steps} steps, $${limits.cost}, ${limits.minutes} minutes`,
  ];
}

/** Describes the events and times that start a worker without a command. */
function describeTriggers({ issues, pull_request, schedule = [] }: Triggers): string[] {
  return [
    ...(issues ? [`issues ${issues.types.join(", ")}`] : []),
    ...(pull_request ? [`pull requests ${pull_request.types.join(", ")}`] : []),
    ...schedule.map(({ cron, task }) => `the schedule ${cron}: ${truncateLine(task, 100)}`),
  ];
}

/** Returns the paths of the settings that pre-approve calls of a toolset. */
function preApprovedIn(settings: unknown): string[][] {
  if (settings === "preApproved") return [[]];
  if (typeof settings !== "object" || settings === null) return [];
  return Object.entries(settings).flatMap(([name, value]) => preApprovedIn(value).map((path) => [name, ...path]));
}

async function confirm({ input, output }: CommandContext, question: string): Promise<boolean> {
  if (!isTerminal(input))
    throw new UserError("This is not a terminal, so golem cannot ask. Use --yes to write the worker without asking.");
  const prompter = openPrompter(input, output);
  using _ = deferred(() => prompter.release());
  const answer = await prompter.ask(question, { verbatim: true, fresh: true });
  return isYes(answer);
}
