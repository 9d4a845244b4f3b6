import { type ChatMessage, denialReason, messageText, resultsOf, withoutInterrupted } from "./conversation.ts";
import { describeRun, fixerScript, introduction, isSampleTask, joinParagraphs, readTestRun } from "./fixer-script.ts";
import { type ChatRequest, type ModelReply, turnOf } from "./model-server.ts";
import { reviseScript } from "./revise-script.ts";

interface Turn {
  text?: string;
  calls?: { name: string; args: unknown }[];
}

type Conversation = ReturnType<typeof conversationOf>;

interface Story {
  instructions: string;
  /** Returns the turns. They are composed again for each request, with the results that the conversation contains so far. */
  turns: (conversation: Conversation) => Turn[];
  /** The line for the changelog that the sample's CI requires. */
  changelog?: string;
}

const library = "src/paginate.js";
const tests = "test/paginate.test.js";
const bug = "Math.floor(total / perPage) + 1";
const search = { name: "grep", args: { pattern: "pageCount|hasNext|Math\\." } };
const readLibrary = { name: "read_file", args: { path: library } };
const readTests = { name: "read_file", args: { path: tests } };
const alreadyFixed = `\`${library}\` no longer contains \`${bug}\`, so the issue seems to be fixed.`;

const stories: Story[] = [
  { instructions: "You review the pull request", turns: reviewer },
  { instructions: "You sort the issue", turns: triager },
  { instructions: "You plan the work", turns: planner },
  { instructions: "You answer questions about this repository", turns: explainer },
  { instructions: "You take the request of a person", turns: main },
  { instructions: "You write tests", turns: tester, changelog: "The first page and the last one are tested." },
  {
    instructions: "You write and correct documentation",
    turns: documenter,
    changelog: "The README lists the options of `paginate`.",
  },
  { instructions: "You find out why checks fail", turns: ciDoctor },
  { instructions: "You upgrade the dependency", turns: upgrader },
];

/**
 * Plays the model of each worker that ships: a short story about the sample issue, with the offered tools and their actual
 * results. For any other task it explains what a scripted model cannot do.
 */
export function workerScript(request: ChatRequest): ModelReply {
  const messages = withoutInterrupted(request.messages);
  const instructions = messageText(messages.find(({ role }) => role === "system"));
  const story = stories.find((each) => instructions.startsWith(each.instructions));
  const [answered = messages.length] = messages.flatMap(({ role }, index) => (role === "assistant" ? [index] : []));
  const asked = messages.slice(0, answered).filter(({ role }) => role === "user");
  const task = asked.map(messageText).join("\n");
  if (!story || !isSampleTask(task)) return fixerScript(request);

  const offered = new Set(request.tools.map((tool) => tool.function.name));
  const revision = reviseScript(messages, offered, story.changelog);
  if (revision) return revision;

  const turns = story.turns(conversationOf(messages, task)).flatMap(({ text, calls }) => {
    const available = calls?.filter(({ name }) => offered.has(name));
    return available?.length === 0 ? [] : [{ text: text ?? "", ...(available && { calls: available }) }];
  });
  const [first] = turns;
  if (first) first.text = joinParagraphs(introduction, first.text);
  return turns[turnOf(messages)] ?? turns.at(-1) ?? { text: introduction };
}

/** Returns the parts of the conversation that decide the next turn. `result` is the last one of a tool, or an empty text. */
function conversationOf(messages: readonly ChatMessage[], task: string) {
  const results = (tool: string) => resultsOf(messages, tool);
  return { task, results, result: (tool: string) => results(tool).at(-1) ?? "" };
}

/** Returns the location of the first line of the library that contains this text, as grep reported it. */
function locationOf(matches: string, text: string): string {
  const lines = matches.split("\n");
  const ofLibrary = lines.includes(library) ? lines.slice(lines.indexOf(library)) : [];
  const [, number] = /^(\d+):/.exec(ofLibrary.find((line) => line.includes(text)) ?? "") ?? [];
  return number === undefined ? `\`${library}\`` : `\`${library}:${number}\``;
}

function triager({ result }: Conversation): Turn[] {
  const found = result("grep");
  const labeled = result("add_labels");
  const denied = denialReason(labeled) !== undefined;
  return [
    { text: "I'll look for the code that the issue describes.", calls: [search, readTests] },
    ...(found === "" || found.includes(bug)
      ? [
          {
            text: joinParagraphs(
              "**Bug.** The number of pages is one too high when the items fill all pages exactly.",
              `- Cause: ${locationOf(found, bug)} adds one to the rounded-down number, even when nothing remains.`,
              "- Who notices it: everyone whose last page is full. They see an enabled *next* button and an empty page. No data is lost.",
              `- Nothing is missing to act on it: \`${tests}\` has a test that fails for this reason. Start in \`pageCount\`.`,
            ),
            calls: [{ name: "add_labels", args: { labels: ["bug"] } }],
          },
          {
            text: denied
              ? `This is a bug in ${locationOf(found, bug)}. I did not add the label, because that was denied.`
              : `This is a bug in ${locationOf(found, bug)}. ${labeled}`,
          },
        ]
      : [{ text: alreadyFixed }]),
  ];
}

function planner({ result }: Conversation): Turn[] {
  const found = result("grep");
  const steps = [
    { content: "Round up in pageCount, and keep one page for an empty list", activeForm: "Rounding up in pageCount" },
    { content: "Run the tests", activeForm: "Running the tests" },
    { content: "Add a line to the changelog", activeForm: "Adding a line to the changelog" },
  ];
  return [
    { text: "I'll read the code and its tests before I plan.", calls: [search, readLibrary, readTests] },
    ...(found === "" || found.includes(bug)
      ? [
          { calls: [{ name: "write_tasks", args: { tasks: steps.map((step) => ({ ...step, status: "pending" })) } }] },
          {
            text: [
              `1. Change ${locationOf(found, bug)} to round up: \`Math.max(1, Math.ceil(total / perPage))\`. \`hasNext\` (${locationOf(found, "hasNext")}) follows from it. What could go wrong: without \`Math.max\`, an empty list would have no page.`,
              `2. Run \`npm test\`. The test *a full last page is not followed by an empty one* fails now and has to pass; the other two have to stay green.`,
              "3. Add a line to `CHANGELOG.md`, which the CI requires.",
              "",
              "I would leave out a check of `perPage`: it is a separate change.",
            ].join("\n"),
          },
        ]
      : [{ text: alreadyFixed }]),
  ];
}

function explainer({ result }: Conversation): Turn[] {
  const found = result("grep");
  return [
    { text: "I'll follow the call from `paginate` to the number of pages.", calls: [readLibrary, search] },
    {
      text:
        found === "" || found.includes(bug)
          ? [
              "The third page exists because `pageCount` always adds one, even when the second page is full.",
              "",
              `1. \`paginate\` asks for the number of pages (${locationOf(found, "const pages")}).`,
              `2. ${locationOf(found, bug)} computes \`${bug}\`: for 20 items with 10 per page that is 2 + 1 = 3. For 19 it is 1 + 1 = 2, and for 21 it is 2 + 1 = 3, which are right.`,
              `3. ${locationOf(found, "hasNext")} compares the page with that number: \`2 < 3\`, so the *next* button stays enabled.`,
            ].join("\n")
          : alreadyFixed,
    },
  ];
}

function main({ result }: Conversation): Turn[] {
  const task =
    "Explain why 20 items with 10 per page have an empty third page. Follow `paginate` in src/paginate.js. The caller opens the pull request, if there is one.";
  return [
    {
      text: "The cause has to be known before anything changes, so I'll ask the explainer.",
      calls: [{ name: "explainer", args: { task } }],
    },
    {
      text: joinParagraphs(
        "The explainer reports:",
        result("explainer"),
        "Nothing was changed. `/run fixer` fixes it and opens a pull request.",
      ),
    },
  ];
}

const newTest = `test("only the first page has no previous page", () => {
  assert.equal(paginate(products(25)).hasPrevious, false);
  assert.equal(paginate(products(25), { page: 2 }).hasPrevious, true);
});
`;
const lastTest = 'test("a full last page is not followed by an empty one", () => {';
const tested = "hasPrevious: page > 1,";
const broken = "hasPrevious: page > 0,";

function tester(conversation: Conversation): Turn[] {
  const [before, after, mutated] = conversation.results("run_tests").map(readTestRun);
  const say = (run: typeof before) => (run ? describeRun(run) : "the tests were not run");
  const change = (path: string, old_text: string, new_text: string) => ({
    name: "edit_file",
    args: { path, old_text, new_text },
  });
  return [
    { text: "I'll read the code and its tests.", calls: [readLibrary, readTests] },
    { calls: [{ name: "run_tests", args: {} }] },
    {
      text: joinParagraphs(
        before && `Before my change: ${describeRun(before)}.`,
        "The bug already has a test. `hasPrevious` has none, so I'll add one.",
      ),
      calls: [change(tests, lastTest, `${newTest}\n${lastTest}`)],
    },
    { calls: [{ name: "run_tests", args: {} }] },
    {
      text: "A test that cannot fail proves nothing, so I'll break the code temporarily: the new test has to fail.",
      calls: [change(library, tested, broken)],
    },
    { calls: [{ name: "run_tests", args: {} }] },
    { text: "I'll undo that change.", calls: [change(library, broken, tested)] },
    ...pullRequest(conversation, {
      title: "Test that only the first page has no previous page",
      body: [
        "`hasPrevious` had no test. Now one checks it for the first and the second page.",
        "",
        `- before: ${say(before)}`,
        `- after: ${say(after)}`,
        `- with \`${broken}\`, which is wrong: ${say(mutated)}`,
        "",
        "The code under test is unchanged, so the test that shows the reported bug still fails.",
      ].join("\n"),
    }),
  ];
}

const documented = "Page numbers start at 1.";

function documenter(conversation: Conversation): Turn[] {
  return [
    {
      text: "I'll compare the README with the code.",
      calls: [{ name: "read_file", args: { path: "README.md" } }, readLibrary],
    },
    {
      text: "The README does not say which values `page` and `perPage` have by default.",
      calls: [
        {
          name: "edit_file",
          args: {
            path: "README.md",
            old_text: documented,
            new_text: `\`page\` is 1 and \`perPage\` is 10 by default. ${documented}`,
          },
        },
        { name: "git_diff", args: {} },
      ],
    },
    ...pullRequest(conversation, {
      title: "Document the default options of paginate",
      body: `The README did not name the defaults of \`page\` and \`perPage\`. They are in the signature of \`paginate\` in \`${library}\`. No code changes.`,
    }),
  ];
}

const changelogLine = "A full last page is no longer followed by an empty one.";

function ciDoctor({ result }: Conversation): Turn[] {
  const checks = result("read_checks");
  const [, name] = /^(\S+): failure/m.exec(checks) ?? [];
  const read = { text: "I'll read the failed checks first.", calls: [{ name: "read_checks", args: {} }] };
  if (checks === "") return [read];
  if (name === undefined)
    return [read, { text: "No check has failed on this commit, so there is nothing to repair. Nothing was changed." }];
  const isChangelog = /CHANGELOG\.md does not change/.test(checks);
  if (!isChangelog)
    return [read, { text: `I am a scripted model and know only the sample's \`changelog\` check, not \`${name}\`.` }];
  const pushed = result("update_pull_request");
  const denied = denialReason(pushed);
  const why = `\`${name}\` fails because of this change: it has no line in \`CHANGELOG.md\`, which the check asks for.`;
  return [
    read,
    {
      text: `${why} Neither the base nor the environment is at fault.`,
      calls: [{ name: "write_file", args: { path: "CHANGELOG.md", content: `# Changelog\n\n- ${changelogLine}\n` } }],
    },
    { calls: [{ name: "update_pull_request", args: { message: "Add the change to the changelog" } }] },
    {
      text:
        denied === undefined
          ? `${why} I added the line and pushed it, so the check runs again. No test or rule was changed.`
          : `The push was denied${denied && `: ${denied}`}. ${why} The added line remains in this run.`,
    },
  ];
}

function upgrader(conversation: Conversation): Turn[] {
  const { task, result, results } = conversation;
  const [wanted, name, version] = /(?<![\w@/.-])((?:@[\w-]+\/)?[a-z][\w.-]*)@(\d[\w.-]*)/.exec(task) ?? [];
  const find = {
    text: "I'll look for the dependency in the manifest and in the code.",
    calls: [
      { name: "read_file", args: { path: "package.json" } },
      { name: "grep", args: { pattern: name ?? "import .* from" } },
    ],
  };
  if (wanted === undefined)
    return [
      find,
      {
        text: "The issue names no dependency, and `package.json` has none, so there is nothing to upgrade. Name one with its version, as in `/run upgrader left-pad@1.3.0`.",
      },
    ];
  const [before, after] = results("run_tests").map(readTestRun);
  const installed = result("install_package");
  const denied = denialReason(installed);
  const install = { name: "install_package", args: { packages: [wanted] } };
  const start = [find, { calls: [{ name: "run_tests", args: {} }] }, { calls: [install] }];
  if (denied !== undefined)
    return [...start, { text: `The installation was denied${denied && `: ${denied}`}. Nothing was changed.` }];
  if (/Exit code [1-9]|[Ee]rror/.test(installed))
    return [...start, { text: `\`${wanted}\` could not be installed, so nothing was changed:\n\n${installed}` }];
  return [
    ...start,
    { calls: [{ name: "run_tests", args: {} }] },
    ...pullRequest(conversation, {
      title: `Upgrade ${name} to ${version}`,
      body: [
        `\`package.json\` asks for \`${name}\` ${version}. No other package moved, and no code uses it yet.`,
        "",
        `- before: ${before ? describeRun(before) : "the tests were not run"}`,
        `- after: ${after ? describeRun(after) : "the tests were not run"}`,
      ].join("\n"),
    }),
  ];
}

/** Proposes a pull request with the edit that was made, and reports the outcome. */
function pullRequest({ result }: Conversation, { title, body }: { title: string; body: string }): Turn[] {
  const edited = result("edit_file");
  if (edited.startsWith("Error") || denialReason(edited) !== undefined)
    return [{ text: "The file could not be changed as prepared, so I stop here. Nothing was pushed." }];
  const args = { title, body: `${body}\n\nWritten by a scripted model in the Golem Forge playground.` };
  const opened = result("open_pull_request");
  const denied = denialReason(opened);
  return [
    { calls: [{ name: "open_pull_request", args }] },
    {
      text:
        denied === undefined
          ? `${opened}\n\n${body}`
          : `The pull request was denied${denied && `: ${denied}`}. Nothing was pushed.`,
    },
  ];
}

function reviewer({ task, result }: Conversation): Turn[] {
  if (!/^Pull request #/m.test(task))
    return [
      { text: "This thread is an issue, so there is nothing to review. Comment `/run reviewer` on a pull request." },
    ];
  const [, line] = /^\s*\d*\s+(\d+) \+.*Math\.ceil\(total \/ perPage\)/m.exec(result("read_pull_request_diff")) ?? [];
  const finding = {
    key: "per-page-zero",
    path: library,
    line: Number(line),
    text: "With `perPage: 0` the number of pages is `Infinity`, so `hasNext` is always true and a loop over the pages never ends. Refuse it.",
    suggestion:
      '  if (!(perPage >= 1)) throw new RangeError("perPage must be at least 1");\n  return Math.max(1, Math.ceil(total / perPage));',
  };
  const summary =
    line === undefined
      ? "I am a scripted model and know only the change of the sample's `pageCount`, which this pull request does not contain. I have no findings, but this is not a review."
      : "The page count is right now for full, partial and empty lists. One value of `perPage` is not handled.";
  return [
    {
      text: "I'll read the description, the earlier reviews and the diff.",
      calls: [
        { name: "read_pull_request", args: {} },
        { name: "read_reviews", args: {} },
      ],
    },
    { calls: [{ name: "read_pull_request_diff", args: {} }, readLibrary] },
    { calls: [{ name: "create_review", args: { summary, findings: line === undefined ? [] : [finding] } }] },
    { text: result("create_review") },
  ];
}
