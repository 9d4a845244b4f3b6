import { type ChatRequest, type Reply, turnOf } from "./model-server.ts";

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
const before = "  return Math.floor(total / perPage) + 1;";
const after = "  return Math.max(1, Math.ceil(total / perPage));";

const whatIAm =
  "I am a scripted model: no model key is set, so nothing here thinks. I only know how to fix the sample issue.";
const howToDoBetter =
  "For anything else, stop the demo, set a key such as ANTHROPIC_API_KEY or OPENAI_API_KEY together with GOLEM_FORGE_MODEL (for example anthropic:claude-sonnet-4-5), and start it again.";

const plan = [
  "Find where pages are counted",
  "Correct the count",
  "Look at the change as a reviewer would",
  "Open a draft pull request",
];
const inProgress = [
  "Finding where pages are counted",
  "Correcting the count",
  "Looking at the change",
  "Opening a draft pull request",
];

const pullRequest = {
  closes_issue: true,
  title: "No empty page after a page that is full",
  body: [
    "`pageCount` divided, cut the rest off and added one. That is right unless the list fills its last page exactly: 20 items, 10 on a page, made 3 pages.",
    "",
    "It now rounds up, and a list without items still has its one page. The test *no empty page follows a page that is full* was red and covers it.",
    "",
    "Written by a scripted model in the Golem Forge playground.",
  ].join("\n"),
};

/**
 * Plays a model that works the sample issue for real with the tools it is offered, and says what it is to everybody
 * else. It keeps nothing: what comes next follows from the conversation alone.
 */
export function fixerScript({ messages, tools }: ChatRequest): Reply {
  const offered = new Set(tools.map((tool) => tool.function.name));
  const asked = textOf(messages.find(({ role }) => role === "user"));
  if (!/empty/i.test(asked) || !/paginate|pages?\b/i.test(asked) || !offered.has("edit_file")) {
    return { text: `${whatIAm} ${howToDoBetter}` };
  }

  const refused = answersTo(messages, "edit_file").find((answer) => denialIn(answer) !== undefined);
  if (refused) return { text: `I may not change ${library}, so I stop here. Nothing was changed.` };

  const moves = workingMoves.map(({ text, calls }) => ({ text, calls: calls.filter(({ name }) => offered.has(name)) }));
  const move = moves.filter(({ calls }) => calls.length > 0)[turnOf(messages)];
  return move ?? finish(messages, offered);
}

const workingMoves: Move[] = [
  {
    text: `${whatIAm} This is that issue, so I start.`,
    calls: [
      tasksAt(0),
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
  {
    text: "`pageCount` adds one even when the last page is full. Rounding up does what was meant.",
    calls: [tasksAt(1), { name: "edit_file", args: { path: library, old_text: before, new_text: after } }],
  },
  { text: "", calls: [tasksAt(2), { name: "git_diff", args: {} }] },
];

/** The plan with the task of this index under way and all before it done. */
function tasksAt(current: number): Call {
  const tasks = plan.map((content, index) => ({
    content,
    activeForm: inProgress[index],
    status: index < current ? "completed" : index === current ? "in_progress" : "pending",
  }));
  return { name: "write_tasks", args: { tasks } };
}

/** The pull request, as often as a person's reasons make it worth asking, and the last words. */
function finish(messages: readonly Message[], offered: ReadonlySet<string>): Reply {
  if (!offered.has("open_pull_request")) {
    return { text: `I corrected ${library}, but I was not given a tool to open a pull request with.` };
  }
  const answers = answersTo(messages, "open_pull_request");
  const denials = answers.map(denialIn).filter((denial) => denial !== undefined);
  const last = answers.at(-1);
  if (last === undefined) return propose("The change is small and does what the issue asks. May I propose it?");
  if (last.includes("Nobody answered"))
    return { text: "Nobody answered, so I opened no pull request. Nothing was pushed." };
  if (denialIn(last) === undefined) return conclude(messages, last, offered);
  if (denials.length > 1) {
    return { text: "Twice no: I leave it at that. Nothing was pushed, and the change stays in this run only." };
  }
  const reason = denials[0];
  if (!reason) return { text: "I understand: no pull request. Nothing was pushed." };

  const note = `A reviewer said: ${reason}`;
  return propose(
    `You said: ${reason}\n\nA script cannot act on that, but it can pass it on. May I propose it like this?`,
    note,
  );
}

function propose(text: string, note?: string): Reply {
  const body = note ? `${pullRequest.body}\n\n${note}` : pullRequest.body;
  return { text, calls: [tasksAt(3), { name: "open_pull_request", args: { ...pullRequest, body } }] };
}

/** Ticks the last task, then tells how it went. */
function conclude(messages: readonly Message[], answer: string, offered: ReadonlySet<string>): Reply {
  const calledLast = messages.findLast((message) => message.tool_calls?.length)?.tool_calls ?? [];
  const ticked = !calledLast.some((call) => call.function.name === "open_pull_request");
  const opened = /pull request #\d+/.test(answer);
  return ticked || !opened || !offered.has("write_tasks")
    ? { text: describeEnd(answer) }
    : { text: "", calls: [tasksAt(plan.length)] };
}

function describeEnd(answer: string): string {
  const where = /https?:\/\/\S+\/pull\/\d+/.exec(answer)?.[0] ?? /#\d+/.exec(answer)?.[0];
  if (!where) return `The pull request could not be opened: ${answer.slice(0, 500)}`;
  return [
    `I opened ${where}.`,
    "",
    `- \`pageCount\` in \`${library}\` rounds up instead of adding one, so a full last page is the last page.`,
    "- A list without items still has one page.",
    "- I did not run the tests: `npm test` does.",
  ].join("\n");
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
