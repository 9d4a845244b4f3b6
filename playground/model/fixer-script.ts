import { type ChatMessage, denialReason, messageText, resultsOf, withoutInterrupted } from "./conversation.ts";
import { type ChatRequest, type ModelReply, turnOf } from "./model-server.ts";
import { reviseScript } from "./revise-script.ts";

interface Call {
  name: string;
  args: unknown;
}

interface Turn {
  text: string;
  calls: Call[];
}

const library = "src/paginate.js";
const buggyLine = "  return Math.floor(total / perPage) + 1;";
const fixedLine = "  return Math.max(1, Math.ceil(total / perPage));";

export const introduction =
  "I am a scripted model: no API key is configured, so no real model is running. I can only play prepared steps on the sample issue.";
const howToUseRealModel =
  "For anything else, stop the demo, set an API key such as ANTHROPIC_API_KEY or OPENAI_API_KEY and GOLEM_FORGE_MODEL (for example anthropic:claude-sonnet-4-5), and start it again.";

const steps = {
  find: { content: "Find where pages are counted", activeForm: "Finding where pages are counted" },
  reproduce: { content: "Run the tests before the change", activeForm: "Running the tests before the change" },
  fix: { content: "Fix the page count", activeForm: "Fixing the page count" },
  verify: { content: "Run the tests after the change", activeForm: "Running the tests after the change" },
  review: { content: "Review the change", activeForm: "Reviewing the change" },
  open: { content: "Open a draft pull request", activeForm: "Opening a draft pull request" },
};
type Step = keyof typeof steps;

/** The test runs before and after the edit that the conversation contains so far. */
interface Tests {
  canRun: boolean;
  before: TestRun | undefined;
  after: TestRun | undefined;
}

/**
 * Plays a model that actually fixes the sample issue with the offered tools, and explains itself for any other task. It is
 * stateless: each reply depends only on the conversation.
 */
export function fixerScript({ messages: all, tools }: ChatRequest): ModelReply {
  const messages = withoutInterrupted(all);
  const offered = new Set(tools.map((tool) => tool.function.name));
  const task = messageText(messages.find(({ role }) => role === "user"));
  const isFixer = offered.has("edit_file") && offered.has("open_pull_request");
  if (!isSampleTask(task) || !isFixer) {
    return { text: `${introduction} ${howToUseRealModel}` };
  }

  const revision = reviseScript(messages, offered);
  if (revision) return revision;

  const [edited] = resultsOf(messages, "edit_file");
  if (edited !== undefined && denialReason(edited) !== undefined) {
    return { text: `I am not allowed to change ${library}, so I stop here. Nothing was changed.` };
  }
  if (edited?.startsWith("Error")) {
    return { text: `${library} differs from the sample, so I stop here. Nothing was changed.` };
  }

  const [before, after] = resultsOf(messages, "run_tests").map(readTestRun);
  const tests = { canRun: offered.has("run_tests") && before?.kind !== "did not run", before, after };
  if (after?.kind === "ran" && !after.isGreen) {
    return { text: `The tests still fail after my change (${describeRun(after)}), so I won't open a pull request.` };
  }
  const available = (calls: readonly Call[]) => calls.filter(({ name }) => offered.has(name));
  const turns = workingTurns(tests).filter(({ calls }) => available(calls).length > 0);
  const reply = turns[turnOf(messages)] ?? finish(messages, offered, tests);
  return "calls" in reply && reply.calls ? { ...reply, calls: available(reply.calls) } : reply;
}

/** True for a task about the sample issue. */
export function isSampleTask(task: string): boolean {
  return /empty/i.test(task) && /paginate|pages?\b/i.test(task);
}

function workingTurns(tests: Tests): Turn[] {
  const plan = (step: Step) => tasksAt(step, tests);
  const runTests = { name: "run_tests", args: {} };
  return [
    {
      text: `${introduction} This is the sample issue, so I'll start.`,
      calls: [
        plan("find"),
        { name: "list_files", args: { path: "", recursive: true } },
        { name: "grep", args: { pattern: "pageCount|hasNext" } },
      ],
    },
    {
      text: "",
      calls: [
        { name: "read_file", args: { path: library } },
        { name: "read_file", args: { path: "test/paginate.test.js" } },
      ],
    },
    ...(tests.canRun || tests.before
      ? [{ text: "Before I change anything, I'll check which tests fail.", calls: [plan("reproduce"), runTests] }]
      : []),
    {
      text: joinParagraphs(
        tests.before && describeBefore(tests.before),
        "`pageCount` adds one even when the last page is full. It should round up instead.",
      ),
      calls: [plan("fix"), { name: "edit_file", args: { path: library, old_text: buggyLine, new_text: fixedLine } }],
    },
    ...(tests.canRun ? [{ text: "", calls: [plan("verify"), runTests] }] : []),
    {
      text: tests.after ? describeAfter(tests.after) : "",
      calls: [plan("review"), { name: "git_diff", args: {} }],
    },
  ];
}

function describeBefore(run: TestRun): string {
  if (run.kind === "did not run") {
    return `The tests cannot run here: ${run.why}. I'll continue without them and say so in the pull request.`;
  }
  return run.isGreen
    ? `All tests pass before my change (${describeRun(run)}), so none of them shows the bug.`
    : `The tests fail as the issue describes: ${describeRun(run)}.`;
}

function describeAfter(run: TestRun): string {
  return run.kind === "ran"
    ? `The tests pass now: ${describeRun(run)}.`
    : `The tests did not run this time: ${run.why}.`;
}

export function describeRun(run: TestRun): string {
  if (run.kind === "did not run") return run.why;
  const failed = run.failed.map((name) => `*${name}*`).join(", ");
  return `\`${run.counts}\`${failed && ` – ${failed}`}`;
}

/** Returns the plan with this step in progress and all earlier ones completed; without a step, all are completed. */
function tasksAt(current: Step | undefined, { canRun }: Tests): Call {
  const plan = (Object.keys(steps) as Step[]).filter((step) => canRun || (step !== "reproduce" && step !== "verify"));
  const completed = current === undefined ? plan.length : plan.indexOf(current);
  const tasks = plan.map((step, index) => ({
    ...steps[step],
    status: index < completed ? "completed" : index === completed ? "in_progress" : "pending",
  }));
  return { name: "write_tasks", args: { tasks } };
}

/** Proposes the pull request, once more with the reason for a denial, and then concludes. */
function finish(messages: readonly ChatMessage[], offered: ReadonlySet<string>, tests: Tests): ModelReply {
  const results = resultsOf(messages, "open_pull_request");
  const denials = results.map(denialReason).filter((reason) => reason !== undefined);
  const last = results.at(-1);
  if (last === undefined) {
    return propose({
      text: "The change is small and does what the issue asks for. I'll propose it as a pull request.",
      tests,
    });
  }
  if (last.includes("before anyone answered")) {
    return { text: "Nobody answered, so I did not open a pull request. Nothing was pushed." };
  }
  if (denialReason(last) === undefined) return conclude(messages, last, offered, tests);
  if (denials.length > 1) {
    return {
      text: "The pull request was denied twice, so I stop here. Nothing was pushed; the change remains in this run.",
    };
  }
  const reason = denials[0];
  if (!reason) return { text: "The pull request was denied. Nothing was pushed." };

  return propose({
    text: `The reason was: ${reason}\n\nA script cannot act on it, but it can pass it on in the pull request.`,
    note: `A reviewer said: ${reason}`,
    tests,
  });
}

function propose({ text, note, tests }: { text: string; note?: string; tests: Tests }): ModelReply {
  const body = joinParagraphs(
    "`pageCount` rounded the number of pages down and added one. That is wrong when the items fill the last page exactly: 20 items with 10 per page made 3 pages.",
    "It now rounds up. An empty list still has one page.",
    reportTests(tests),
    "Written by a scripted model in the Golem Forge playground.",
    note,
  );
  const args = { closes_issue: true, title: "Do not add an empty page after a full last page", body };
  return { text, calls: [tasksAt("open", tests), { name: "open_pull_request", args }] };
}

function reportTests({ before, after }: Tests): string {
  if (!before) return "No tool to run the tests was available. Run them with `npm test`.";
  if (before.kind === "did not run")
    return `The tests were **not run** here: ${before.why}. Run them with \`npm test\`.`;
  return [
    "**Tests**",
    "",
    `- before: ${describeRun(before)}`,
    `- after: ${after ? describeRun(after) : "they were not run again"}`,
  ].join("\n");
}

/** Completes the last task, then summarizes the result. */
function conclude(
  messages: readonly ChatMessage[],
  result: string,
  offered: ReadonlySet<string>,
  tests: Tests,
): ModelReply {
  const lastCalls = messages.findLast((message) => message.tool_calls?.length)?.tool_calls ?? [];
  const isPlanCompleted = !lastCalls.some((call) => call.function.name === "open_pull_request");
  const isOpened = /pull request #\d+/.test(result);
  return isPlanCompleted || !isOpened || !offered.has("write_tasks")
    ? { text: summarize(result, tests) }
    : { text: "", calls: [tasksAt(undefined, tests)] };
}

function summarize(result: string, tests: Tests): string {
  const pull = /https?:\/\/\S+\/pull\/\d+/.exec(result)?.[0] ?? /#\d+/.exec(result)?.[0];
  if (!pull) return `The pull request could not be opened: ${result.slice(0, 500)}`;
  return joinParagraphs(
    `I opened ${pull}.`,
    [
      `- \`pageCount\` in \`${library}\` rounds up instead of adding one, so no empty page follows a full last page.`,
      "- An empty list still has one page.",
    ].join("\n"),
    reportTests(tests),
  );
}

export function joinParagraphs(...texts: (string | undefined)[]): string {
  return texts.filter(Boolean).join("\n\n");
}

/** The result of one call of run_tests. */
type TestRun =
  /** `counts` is the tool's summary, such as "node --test: 2 passed, 1 failed". */
  | { kind: "ran"; counts: string; isGreen: boolean; failed: string[] }
  /** `why` is worded to follow a colon. */
  | { kind: "did not run"; why: string };

/** Parses the tool's result. Tests that were killed, or that reported no counts, did not run. */
export function readTestRun(answer: string): TestRun {
  const [, counts, failures, exitCode] =
    /^(.+?: \d+ passed, (\d+) failed(?:, \d+ skipped)?)\. Exit code (\d+) after /.exec(answer) ?? [];
  if (counts !== undefined) {
    const failed = [...answer.matchAll(/^✗ (.+)$/gm)].map(([, name = ""]) => name);
    return { kind: "ran", counts, isGreen: failures === "0" && exitCode === "0", failed };
  }
  const [line = ""] = errorIn(answer).split("\n");
  return { kind: "did not run", why: (/\bunavailable: (.+)/.exec(line)?.[1] ?? line).replace(/[.\s]+$/, "") };
}

/** Returns the error in an answer. Some clients pass errors to the model as text, others as JSON. */
function errorIn(answer: string): string {
  try {
    const { error } = JSON.parse(answer);
    return typeof error === "string" ? error : answer;
  } catch {
    return answer;
  }
}
