import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { parseMention, parseThreadCommand } from "#bot/commands/thread-command.ts";
import { propertyRuns } from "../../support/property-runs.ts";

describe("commands", () => {
  test.each([
    ["/run fixer", { kind: "run", worker: "fixer", text: "" }],
    ["/run", { kind: "run", worker: undefined, text: "" }],
    ["/Run fixer", { kind: "run", worker: "fixer", text: "" }],
    [
      "/run fixer it's \"broken\r\n\r\nSee `sum.js`\\",
      { kind: "run", worker: "fixer", text: "it's \"broken\nSee `sum.js`\\" },
    ],
    ["/approve", { kind: "approve", target: undefined, remember: "none" }],
    ["/approve K7MQ ", { kind: "approve", target: "k7mq", remember: "none" }],
    ["/approve #k7mq session", { kind: "approve", target: "k7mq", remember: "session" }],
    ["/approve session", { kind: "approve", target: undefined, remember: "session" }],
    ["/approve all", { kind: "approve", target: "all", remember: "none" }],
    [
      '/approve k7mq\n```json\n{"title": "Better"}\n```',
      { kind: "approve", target: "k7mq", remember: "none", changedArgs: { title: "Better" } },
    ],
    [
      '/approve k7mq\n```\n{"title": "Better"}\n```',
      { kind: "approve", target: "k7mq", remember: "none", changedArgs: { title: "Better" } },
    ],
    [
      '/approve k7mq\n~~~ json \n{"title": "Better"}\n~~~',
      { kind: "approve", target: "k7mq", remember: "none", changedArgs: { title: "Better" } },
    ],
    ["/approve +$2", { kind: "approve", target: undefined, remember: "none", budget: 2 }],
    ["/approve 1A2b3c4d +$2", { kind: "approve", target: "1a2b3c4d", remember: "none", budget: 2 }],
    ["/approve r1  +$2", { kind: "approve", target: "r1", remember: "none", budget: 2 }],
    ["/approve + $ 12.50 $", { kind: "approve", target: undefined, remember: "none", budget: 12.5 }],
    ["/approve + 2.50$", { kind: "approve", target: undefined, remember: "none", budget: 2.5 }],
    ["/deny", { kind: "deny", target: undefined, reason: "" }],
    ["/deny\u00A0because\u00A0of that\u00A0", { kind: "deny", target: undefined, reason: "because\u00A0of that" }],
    ["/deny k7mq it's wrong", { kind: "deny", target: "k7mq", reason: "it's wrong" }],
    ["/deny a234567890123456 no", { kind: "deny", target: "a234567890123456", reason: "no" }],
    ["/deny small mistakes", { kind: "deny", target: undefined, reason: "small mistakes" }],
    ["/deny allowing it is risky", { kind: "deny", target: undefined, reason: "allowing it is risky" }],
    ["/deny src/v1.js is wrong", { kind: "deny", target: undefined, reason: "src/v1.js is wrong" }],
    ["/deny internationalization2 no", { kind: "deny", target: undefined, reason: "internationalization2 no" }],
    ["/revoke #K7MQ", { kind: "revoke", target: "k7mq", reason: "" }],
    ["/revoke k7mq  it is late\nand risky", { kind: "revoke", target: "k7mq", reason: "it is late\nand risky" }],
    ["/deny all", { kind: "deny", target: "all", reason: "" }],
    ["/deny because it's wrong\nand ugly", { kind: "deny", target: undefined, reason: "because it's wrong\nand ugly" }],
    ["/stop", { kind: "stop" }],
    ["/stop please!", { kind: "stop" }],
    ["/resume", { kind: "resume", text: "" }],
    ["/resume use the other file", { kind: "resume", text: "use the other file" }],
    ["/cancel", { kind: "cancel" }],
    ["/status", { kind: "status" }],
    ["/retry", { kind: "retry" }],
    ["/clear", { kind: "clear" }],
    ["/exit", { kind: "exit" }],
    ["/diff", { kind: "diff" }],
    ["/cost", { kind: "cost" }],
    ["/ready", { kind: "ready" }],
    ["/update", { kind: "update" }],
    ["/undo", { kind: "undo", line: "/tool undo_push" }],
    ["/model", { kind: "model", model: undefined }],
    ["/model openai:gpt-6", { kind: "model", model: "openai:gpt-6" }],
    ["/log please", { kind: "log" }],
    ["/help", { kind: "help" }],
    ['/tool git_push --message "it\'s on" \nThanks!', { kind: "tool", line: '/tool git_push --message "it\'s on"' }],
    ["/T git_push", { kind: "tool", line: "/T git_push" }],
    ["/tool", { kind: "tool", line: "/tool" }],
    ["/tools", { kind: "tools", line: "/tools" }],
    ["/git_push --branch main\r\nmore", { kind: "direct", line: "/git_push --branch main", mayBeForeign: false }],
  ])("%j is understood", (body, command) => {
    expect(parseThreadCommand(body)).toEqual(command);
  });

  test.each([
    "/run\nfixer",
    "/model a b",
    "/approve +$0",
    "/run ../../etc/passwd",
    "/run fix;er",
    "/approve not yet",
    "/approve a_b",
    "/approve -k7mq",
    "/approve k7mq!",
    "/approve not now +$2",
    "/approve +$2 each",
    "/revoke",
    "/revoke k7mq!",
    "/approve k7mq please",
    "/approve k7mq\n\nThank you!",
    "/approve\nbut only once the tests pass",
    "/approve all\n\n> /approve all\n\nNo.",
    "/approve k7mq\n<!-- not really -->",
    "/approve +$2\nNo, wait.",
    '/approve +$2\n```json\n{"a":1}\n```',
    '/approve k7mq\n```json\n{"a":1}\n```\nNo, wait.',
    '/approve k7mq\nNo: ```json\n{"a":1}\n```',
    "/approve k7mq\n```json\n{broken\n```",
    "/approve k7mq\n```json\n[1]\n```",
    '/approve all\n```json\n{"a":1}\n```',
    '/approve k7mq\n```json\n{"a":1}\n```\n```json\n{"a":2}\n```',
    '/approve k7mq\nsome words\n```json\n{"a":1}\n```',
    '/approve k7mq\n{"a":1}',
    `/approve k7mq\n\`\`\`json\n{"a":${"[".repeat(5_000)}${"]".repeat(5_000)}}\n\`\`\``,
    "/cancel the child",
  ])("%j is an invalid command of the App, which is answered and has no effect", (body) => {
    expect(parseThreadCommand(body)).toMatchObject({ kind: "malformed", message: expect.any(String) });
  });

  test.each([
    ["/aprove", "approve"],
    ["/runn fixer", "run"],
    ["/stpo", "stop"],
    ["/rnu fixer", "run"],
    ["/statsu", "status"],
    ["/canel", "cancel"],
    ["/tol git_push", "tool"],
    ["/deni k7mq", "deny"],
    ["/aprov k7mq", "approve"],
  ])("%j is a likely misspelling of /%s", (body, suggestion) => {
    expect(parseThreadCommand(body)).toMatchObject({ kind: "unknown", suggestion });
  });

  test.each(["/assign @bob", "/lgtm", "/hold", "/close", "/cc @ada", "/test all", "/real", "/retest", "/rebase"])(
    "%j may be another bot's, or the name of a tool",
    (body) => {
      expect(parseThreadCommand(body)).toEqual({ kind: "direct", line: body, mayBeForeign: true });
    },
  );

  test.each([
    "hello",
    "",
    "please /run fixer",
    " /run fixer",
    "    /run fixer",
    "> /approve",
    "```\n/approve\n```",
    "Thanks.\n/approve",
    "\n/approve",
    "one\ntwo\nthree\nfour\n/run fixer",
    "\u200B/approve",
    "／approve",
    "//approve",
    "/",
    "/ run",
    "/usr/bin is missing",
    "/approve.",
    "/run/fixer",
    "`/approve`",
    "**/approve**",
    "<!-- x -->/approve",
  ])("%j is not a command", (body) => {
    expect(parseThreadCommand(body)).toEqual({ kind: "text", text: body.trim() });
  });
});

test("any comment is parsed without an error, and only one that begins with a slash is a command", () => {
  const word = fc.constantFrom(
    "/run",
    "/approve",
    "/deny",
    "/",
    "fixer",
    "all",
    "session",
    "```",
    "json",
    "{}",
    "\n",
    " ",
    "\r\n",
    "k7mq",
  );
  const body = fc.oneof(
    fc.string(),
    fc.array(word, { maxLength: 12 }).map((words) => words.join(" ")),
  );
  fc.assert(
    fc.property(body, (text) => {
      const command = parseThreadCommand(text);
      if (!text.startsWith("/")) expect(command.kind).toBe("text");
    }),
    { numRuns: propertyRuns(500) },
  );
});

test("the text of a task and of a reason is kept as it was written", () => {
  fc.assert(
    fc.property(fc.string({ minLength: 1 }), (words) => {
      const text = words.replace(/\r\n?/g, "\n").trim();
      const command = parseThreadCommand(`/run fixer\n${words}`);
      expect(command).toEqual({ kind: "run", worker: "fixer", text });
      expect(parseThreadCommand(`/deny\n${words}`)).toMatchObject({ kind: "deny", target: undefined, reason: text });
    }),
  );
});

describe("mentions", () => {
  test.each([
    ["@golem-forge fix the sum", "fix the sum"],
    ["@Golem-Forge, fix the sum\nand test it", "fix the sum\nand test it"],
    ["@golem-forge[bot]: look", "look"],
    ["@golem-forge : look", "look"],
    ["@golem-forge", ""],
  ])("%j mentions the app", (body, text) => {
    expect(parseMention(body, "golem-forge")).toBe(text);
  });

  test.each([
    "please, @golem-forge",
    "> @golem-forge fix it",
    "`@golem-forge fix it`",
    "```\n@golem-forge fix it\n```",
    "    @golem-forge fix it",
    "Hello\n@golem-forge fix it",
    "@golem-forge-2 fix it",
    "@golem-forge/team fix it",
    "@golem fix it",
    "",
  ])("%j does not mention the app", (body) => {
    expect(parseMention(body, "golem-forge")).toBeUndefined();
  });
});
