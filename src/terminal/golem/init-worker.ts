import { mkdir, writeFile } from "node:fs/promises";
import { dirname, join, relative } from "node:path";
import { UserError } from "#domain/errors.ts";
import { parseWorker } from "#domain/worker.ts";
import { findRoot } from "#sandbox/checkout/open-checkout.ts";
import {
  type ActionWorkflowOptions,
  actionWorkflowPath,
  baseUrlVariable,
  findWorkflowNames,
  keyVariableOf,
  needsBaseUrl,
  renderActionWorkflow,
} from "#setup/action-workflow.ts";
import { type CommandContext, parseWords } from "./command-context.ts";

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
  const file = join(root, actionWorkflowPath);
  await writeNewFile(file, renderActionWorkflow({ workflows, model, from }), cwd);
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
  const file = join(await findRoot(cwd), ".github/workers", `${name}.worker`);
  await writeNewFile(file, text, cwd);
  return `Wrote ${relative(cwd, file)}.

Next:
  golem check                     validate it after each change
  golem run ${name} --dry-run       see its files and tools without calling a model
  golem run ${name} "a task"        run it on this checkout
Once it is on the default branch, /run ${name} in an issue starts it.
`;
}

/** Writes a file and the folders above it. Throws a UserError if the file exists; its path is shown relative to `cwd`. */
export async function writeNewFile(file: string, text: string, cwd: string): Promise<void> {
  await mkdir(dirname(file), { recursive: true });
  await writeFile(file, text, { flag: "wx" }).catch((error: NodeJS.ErrnoException) => {
    throw error.code === "EEXIST" ? new UserError(`${relative(cwd, file)} exists already.`) : error;
  });
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
# Every write asks for approval. To allow writing in one folder without asking:
# sandbox:
#   zones:
#     - name: docs
#       approval: { write: preApproved }
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
