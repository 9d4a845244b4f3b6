import type { LocalGitHub } from "#playground/github/local-github.ts";

const rule = "CHANGELOG.md does not change in this pull request.";

/**
 * Runs the CI of the sample repository: a workflow with one job, which requires a line in CHANGELOG.md. Checks each new head
 * of a pull request, and returns a function that stops it.
 */
export function runSampleCi(github: LocalGitHub): () => void {
  const checked = new Set<string>();
  let running = Promise.resolve();
  const stop = github.watch(() => {
    running = running.then(() => checkPulls(github, checked)).catch((error: unknown) => console.error(error));
  });
  return stop;
}

async function checkPulls(github: LocalGitHub, checked: Set<string>): Promise<void> {
  for (const { pulls } of Object.values(await github.snapshot())) {
    for (const { state, pull } of pulls) {
      if (!pull || state !== "open" || checked.has(pull.commit)) continue;
      checked.add(pull.commit);
      await check(github, pull);
    }
  }
}

async function check(github: LocalGitHub, { head, base }: { head: string; base: string }): Promise<void> {
  const [before, after] = await Promise.all([base, head].map((ref) => github.readFile(ref, "CHANGELOG.md")));
  const isGood = after !== undefined && after !== before;
  const checks = await github.checks(head);
  const workflow = checks.startWorkflow("CI");
  checks.report("changelog", {
    conclusion: isGood ? "success" : "failure",
    title: isGood ? "CHANGELOG.md changes" : "CHANGELOG.md is missing a line",
    summary: isGood ? "" : rule,
    log: `Run git diff --exit-code ${base}...${head} -- CHANGELOG.md\n${isGood ? "1 file changed" : `Error: ${rule}\nError: Process completed with exit code 1.`}\n`,
    annotations: isGood
      ? []
      : [{ path: "CHANGELOG.md", start_line: 1, end_line: 1, annotation_level: "failure", message: rule }],
  });
  checks.completeWorkflow(workflow);
}
