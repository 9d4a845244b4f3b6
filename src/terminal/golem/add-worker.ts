import { join, relative } from "node:path";
import { Octokit } from "@octokit/rest";
import { z } from "zod";
import { UserError } from "#domain/errors.ts";
import { parseWorker, type WorkerDefinition } from "#domain/worker.ts";
import { findRoot } from "#sandbox/checkout/open-checkout.ts";
import { isYes, openPrompter } from "#terminal/prompter.ts";
import { isTerminal, visible, writeWrapped } from "#terminal/style.ts";
import { type CommandContext, exitCodes, parseWords } from "./command-context.ts";
import { writeNewFile } from "./init-worker.ts";
import { codeOf } from "./trusted-code.ts";

const workersFolder = ".github/workers";

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
  const target = join(root, workersFolder, `${name}.worker`);
  writeWrapped(context.output, `${describeGrants(worker, root, target).map(visible).join("\n")}\n`);
  if (!options.has("yes") && !(await confirm(context, `Write ${relative(context.cwd, target)}? [y/N] `))) {
    context.output.write("Nothing was written.\n");
    return exitCodes.failed;
  }
  await writeNewFile(target, text, context.cwd);
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
  const octokit = new Octokit({
    auth: env.GITHUB_TOKEN || env.GH_TOKEN || undefined,
    baseUrl: env.GITHUB_API_URL || "https://api.github.com",
    log: { debug() {}, info() {}, warn() {}, error() {} },
  });
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
    const status = z.object({ status: z.number() }).safeParse(error).data?.status;
    const reason = error instanceof Error ? error.message : String(error);
    throw new UserError(
      status === 404
        ? `${owner}/${repo} has no file ${path} that you can read.`
        : `${owner}/${repo} cannot be read: ${reason}`,
      { cause: error },
    );
  }
}

/** Describes what a worker may do, one permission per line. */
function describeGrants(worker: WorkerDefinition, root: string, path: string): string[] {
  const { name, description, model, toolsets, sandbox, limits } = worker;
  const zones = sandbox?.zones ?? [];
  const unasked = [{ name: "files outside all zones", approval: sandbox?.approval }, ...zones].flatMap(
    ({ name: zone, approval }) =>
      (["write", "delete"] as const)
        .filter((kind) => approval?.[kind] === "preApproved")
        .map((kind) => `${kind} ${zone}`),
  );
  const code = codeOf(root, { worker, path, isOwn: true });
  return [
    `${name}${description ? `: ${description}` : ""}`,
    `  model        ${model ?? "the one that is configured"}`,
    `  toolsets     ${Object.keys(toolsets).join(", ") || "none"}`,
    `  files        ${sandbox?.restrict ?? "the whole repository"}${sandbox?.readonly ? ", read-only" : ""}`,
    `  does not ask ${unasked.length > 0 ? `to ${unasked.join(", to ")}` : "only where its tools never do"}`,
    `  brings code  ${code.length > 0 ? code.join("; ") : "none"}`,
    `  limits       ${limits.steps} steps, $${limits.cost}, ${limits.minutes} minutes`,
  ];
}

async function confirm({ input, output }: CommandContext, question: string): Promise<boolean> {
  if (!isTerminal(input))
    throw new UserError("There is no terminal to ask. To write the worker without asking: --yes.");
  const prompter = openPrompter(input, output);
  try {
    const answer = await prompter.ask(question, { verbatim: true });
    return isYes(answer);
  } finally {
    prompter.release();
  }
}
