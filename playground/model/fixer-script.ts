import { type ChatRequest, type ModelReply, turnOf } from "./model-server.ts";
import { readTestRun, type TestRun } from "./read-test-run.ts";

type Message = ChatRequest["messages"][number];

interface Call {
  name: string;
  args: unknown;
}

interface Move {
  text: string;
  calls: Call[];
}

const library = "src/paginate.js";
const wrong = "  return Math.floor(total / perPage) + 1;";
const right = "  return Math.max(1, Math.ceil(total / perPage));";

const whatIAm =
  "I am a scripted model: no model key is set, so nothing here thinks. I only know how to fix the sample issue.";
const howToDoBetter =
  "For anything else, stop the demo, set a key such as ANTHROPIC_API_KEY or OPENAI_API_KEY together with GOLEM_FORGE_MODEL (for example anthropic:claude-sonnet-4-5), and start it again.";

const steps = {
  find: { content: "Find where pages are counted", activeForm: "Finding where pages are counted" },
  see: { content: "Run the tests as they are", activeForm: "Running the tests as they are" },
  correct: { content: "Correct the count", activeForm: "Correcting the count" },
  check: { content: "Run the tests again", activeForm: "Running the tests again" },
  review: { content: "Look at the change as a reviewer would", activeForm: "Looking at the change" },
  open: { content: "Open a draft pull request", activeForm: "Opening a draft pull request" },
};
type Step = keyof typeof steps;

/** What the tests said before and after the edit, as far as the conversation has come. */
interface Tests {
  canRun: boolean;
  before: TestRun | undefined;
  after: TestRun | undefined;
}

/**
 * Plays a model that works the sample issue for real with the tools it is offered, and says what it is to everybody
 * else. It keeps nothing: what comes next follows from the conversation alone.
 */
export function fixerScript({ messages: all, tools }: ChatRequest): ModelReply {
  const messages = withoutInterrupted(all);
  const offered = new Set(tools.map((tool) => tool.function.name));
  const asked = textOf(messages.find(({ role }) => role === "user"));
  const isFixer = offered.has("edit_file") && offered.has("open_pull_request");
  if (!/empty/i.test(asked) || !/paginate|pages?\b/i.test(asked) || !isFixer) {
    return { text: `${whatIAm} ${howToDoBetter}` };
  }

  const [edited] = answersTo(messages, "edit_file");
  if (edited !== undefined && denialIn(edited) !== undefined) {
    return { text: `I may not change ${library}, so I stop here. Nothing was changed.` };
  }
  if (edited?.startsWith("Error")) {
    return { text: `${library} is not as it was in the sample, so I stop here. Nothing was changed.` };
  }

  const [before, after] = answersTo(messages, "run_tests").map(readTestRun);
  const tests = { canRun: offered.has("run_tests") && before?.kind !== "did not run", before, after };
  if (after?.kind === "ran" && !after.isGreen) {
    return { text: `The tests are still red after my change (${describeRun(after)}), so I propose nothing.` };
  }
  const known = (calls: readonly Call[]) => calls.filter(({ name }) => offered.has(name));
  const moves = workingMoves(tests).filter(({ calls }) => known(calls).length > 0);
  const reply = moves[turnOf(messages)] ?? finish(messages, offered, tests);
  return "calls" in reply && reply.calls ? { ...reply, calls: known(reply.calls) } : reply;
}

function workingMoves(tests: Tests): Move[] {
  const at = (step: Step) => tasksAt(step, tests);
  const runTests = { name: "run_tests", args: {} };
  return [
    {
      text: `${whatIAm} This is that issue, so I start.`,
      calls: [
        at("find"),
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
      ? [{ text: "Before I change anything, I want to see what is red.", calls: [at("see"), runTests] }]
      : []),
    {
      text: paragraphs(
        tests.before && describeBefore(tests.before),
        "`pageCount` adds one even when the last page is full. Rounding up does what was meant.",
      ),
      calls: [at("correct"), { name: "edit_file", args: { path: library, old_text: wrong, new_text: right } }],
    },
    ...(tests.canRun ? [{ text: "", calls: [at("check"), runTests] }] : []),
    {
      text: tests.after ? describeAfter(tests.after) : "",
      calls: [at("review"), { name: "git_diff", args: {} }],
    },
  ];
}

function describeBefore(run: TestRun): string {
  if (run.kind === "did not run") {
    return `The tests cannot be run here: ${run.why}. I go on without them, and say so in the pull request.`;
  }
  return run.isGreen
    ? `Everything is green before my change (${describeRun(run)}), so no test shows what the issue tells.`
    : `Red, as the issue says: ${describeRun(run)}.`;
}

function describeAfter(run: TestRun): string {
  return run.kind === "ran" ? `Green now: ${describeRun(run)}.` : `This time the tests did not run: ${run.why}.`;
}

/** The counts of the runner, and the tests that failed. */
function describeRun(run: TestRun): string {
  if (run.kind === "did not run") return run.why;
  const failed = run.failed.map((name) => `*${name}*`).join(", ");
  return `\`${run.counts}\`${failed && ` – ${failed}`}`;
}

/** The plan with this step under way and all before it done; with no step, everything is done. */
function tasksAt(current: Step | undefined, { canRun }: Tests): Call {
  const plan = (Object.keys(steps) as Step[]).filter((step) => canRun || (step !== "see" && step !== "check"));
  const done = current === undefined ? plan.length : plan.indexOf(current);
  const tasks = plan.map((step, index) => ({
    ...steps[step],
    status: index < done ? "completed" : index === done ? "in_progress" : "pending",
  }));
  return { name: "write_tasks", args: { tasks } };
}

/** The pull request, as often as a person's reasons make it worth asking, and the last words. */
function finish(messages: readonly Message[], offered: ReadonlySet<string>, tests: Tests): ModelReply {
  const answers = answersTo(messages, "open_pull_request");
  const denials = answers.map(denialIn).filter((denial) => denial !== undefined);
  const last = answers.at(-1);
  if (last === undefined) {
    return propose({ text: "The change is small and does what the issue asks. May I propose it?", tests });
  }
  if (last.includes("Nobody answered"))
    return { text: "Nobody answered, so I opened no pull request. Nothing was pushed." };
  if (denialIn(last) === undefined) return conclude(messages, last, offered, tests);
  if (denials.length > 1) {
    return { text: "Twice no: I leave it at that. Nothing was pushed, and the change stays in this run only." };
  }
  const reason = denials[0];
  if (!reason) return { text: "I understand: no pull request. Nothing was pushed." };

  return propose({
    text: `You said: ${reason}\n\nA script cannot act on that, but it can pass it on. May I propose it like this?`,
    note: `A reviewer said: ${reason}`,
    tests,
  });
}

function propose({ text, note, tests }: { text: string; note?: string; tests: Tests }): ModelReply {
  const body = paragraphs(
    "`pageCount` divided, cut the rest off and added one. That is right unless the list fills its last page exactly: 20 items, 10 on a page, made 3 pages.",
    "It now rounds up, and a list without items still has its one page.",
    reportTests(tests),
    "Written by a scripted model in the Golem Forge playground.",
    note,
  );
  const args = { closes_issue: true, title: "No empty page after a page that is full", body };
  return { text, calls: [tasksAt("open", tests), { name: "open_pull_request", args }] };
}

function reportTests({ before, after }: Tests): string {
  if (!before) return "I was not given a tool to run the tests with. `npm test` runs them.";
  if (before.kind === "did not run") return `The tests were **not run** here: ${before.why}. \`npm test\` runs them.`;
  return [
    "**Tests**",
    "",
    `- before: ${describeRun(before)}`,
    `- after: ${after ? describeRun(after) : "they were not run again"}`,
  ].join("\n");
}

/** Ticks the last task, then tells how it went. */
function conclude(
  messages: readonly Message[],
  answer: string,
  offered: ReadonlySet<string>,
  tests: Tests,
): ModelReply {
  const calledLast = messages.findLast((message) => message.tool_calls?.length)?.tool_calls ?? [];
  const ticked = !calledLast.some((call) => call.function.name === "open_pull_request");
  const opened = /pull request #\d+/.test(answer);
  return ticked || !opened || !offered.has("write_tasks")
    ? { text: describeEnd(answer, tests) }
    : { text: "", calls: [tasksAt(undefined, tests)] };
}

function describeEnd(answer: string, tests: Tests): string {
  const where = /https?:\/\/\S+\/pull\/\d+/.exec(answer)?.[0] ?? /#\d+/.exec(answer)?.[0];
  if (!where) return `The pull request could not be opened: ${answer.slice(0, 500)}`;
  return paragraphs(
    `I opened ${where}.`,
    [
      `- \`pageCount\` in \`${library}\` rounds up instead of adding one, so a full last page is the last page.`,
      "- A list without items still has one page.",
    ].join("\n"),
    reportTests(tests),
  );
}

function paragraphs(...texts: (string | undefined)[]): string {
  return texts.filter(Boolean).join("\n\n");
}

/** Without the turns that somebody stopped: they are played once more. */
function withoutInterrupted(messages: readonly Message[]): Message[] {
  const stopped = new Set(
    messages
      .filter((message) => /^\{"type":"interrupted"/.test(textOf(message)))
      .map((message) => message.tool_call_id),
  );
  const gone = messages.filter(({ tool_calls = [] }) => tool_calls.some(({ id }) => stopped.has(id)));
  const goneIds = new Set(gone.flatMap(({ tool_calls = [] }) => tool_calls.map(({ id }) => id)));
  return messages.filter((message) => !gone.includes(message) && !goneIds.has(message.tool_call_id ?? ""));
}

/** What came back from every call of this tool, oldest first. */
function answersTo(messages: readonly Message[], tool: string): string[] {
  const ids = messages
    .flatMap((message) => message.tool_calls ?? [])
    .filter((call) => call.function.name === tool)
    .map(({ id }) => id);
  return ids.flatMap((id) => {
    const answer = messages.find(({ role, tool_call_id }) => role === "tool" && tool_call_id === id);
    return answer ? [textOf(answer)] : [];
  });
}

/** The reason of a denial, empty when none was given; undefined when nobody denied. */
function denialIn(answer: string): string | undefined {
  if (!answer.includes("denied this call")) return undefined;
  return /and said why: (.*?)\.? It was not done/s.exec(answer)?.[1] ?? "";
}

function textOf(message: Message | undefined): string {
  const content = message?.content;
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) return "";
  return content
    .map((part: unknown) => (part && typeof part === "object" && "text" in part ? String(part.text) : ""))
    .join("\n");
}
