import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type CommandRule, judgeCommand } from "#toolsets/shell/command-rules.ts";
import { interactiveProblem } from "#toolsets/shell/interactive-command.ts";
import { readCommand } from "#toolsets/shell/read-command.ts";

const rules: CommandRule[] = [
  { pattern: "git push", approval: "blocked" },
  { pattern: "rm", approval: "blocked" },
  { pattern: "git status", approval: "preApproved" },
  { pattern: "npm test", approval: "preApproved" },
  { pattern: "ls", approval: "preApproved" },
  { pattern: "echo", approval: "preApproved" },
  { pattern: "find", approval: "preApproved" },
  { pattern: "xargs", approval: "preApproved" },
  { pattern: "env", approval: "preApproved" },
  { pattern: "git", approval: "ask" },
];
const decide = (line: string) => judgeCommand(line, rules, "ask").decision;

describe("a command line is allowed only when every command in it is", () => {
  test.each([
    "ls",
    "ls -la src",
    "git status && npm test",
    "git status -s | xargs ls",
    "echo 'a; rm b' \"&& rm\"",
    "FOO=1 npm test",
    "ls 2>/dev/null; ls 2>&1",
    "(ls; echo done)",
    "echo $(git status)",
    "echo \\; rm",
    "ls # rm -rf /",
    "find . -name '*.ts' -exec ls {} \\;",
    "env A=1 ls",
    "ls \\\n  -la",
  ])("%j runs", (line) => expect(decide(line)).toBe("preApproved"));

  test.each([
    "cat x",
    "ls; cat x",
    "ls && (cat x)",
    "git log",
    "echo $(cat x)",
    'echo "$(cat x)"',
    "$CMD x",
    "l$x",
    "./ls",
    "/bin/ls",
    "ls > src/main.ts",
    "echo x >> README.md",
    "echo x &> out",
    "> file",
    "LD_PRELOAD=x ls",
    "PATH=. ls",
    "GIT_SSH_COMMAND=x git status",
    "env LD_PRELOAD=x ls",
    "if true; then ls; fi",
    "for i in 1; do ls; done",
    "ls `id`",
    "cat <<E\nls\nE",
    "ls <(cat x)",
    "f() { ls; }",
    "ls 'unclosed",
    "ls (",
    "ls )",
    // biome-ignore lint/suspicious/noTemplateCurlyInString: a command of bash
    "echo ${x:-$(cat y)}",
    "find . -exec cat {} +",
    "git status | xargs cat",
    "xargs -n 1 cat",
    "env cat x",
    "bash -c 'ls'",
    "npm tests",
    "git -C / status",
    "",
    "# only a comment",
    "{ ls; }",
    "! ls",
    "ls\u00a0x",
    "ls\r\n",
    "ls\u200b",
    "{fd}>out ls",
    "git $COMMAND",
    "env -S cat",
    "bash script.sh",
    "xargs env",
    "xargs env <<< 'cat x'",
    "echo cat | xargs -I % env %",
    "find . -exec env {} +",
    "find . -exec {} \\;",
  ])("%j asks", (line) => expect(decide(line)).toBe("ask"));

  test.each([
    "rm x",
    "/bin/rm x",
    "ls; rm x",
    "echo $(rm x)",
    "\\rm x",
    "'r'm x",
    "env rm x",
    "ls | xargs rm",
    "ls | xargs -n 1 -I {} rm {}",
    "timeout 5 rm x",
    "bash -c 'ls; rm x'",
    'sh -ec "rm x"',
    "eval 'rm x'",
    "eval rm x",
    "find . -exec rm {} +",
    "find . -delete",
    "git push origin main",
    "git push",
    "sudo nohup rm x",
    "for f in *; do rm $f; done",
    "x=1 rm y",
    "rm\u00a0x; rm y",
    "git -C . push",
    "git -c a=b --no-pager push",
    "/usr/bin/git push",
    "if true; then git -C . push; fi",
    "env -u HOME rm x",
    "env -S 'rm x'",
    "env --split-string='rm x'",
    "timeout -s KILL .5 rm x",
    "sudo -u nobody rm x",
    "xargs -I % rm %",
    "xargs -0d x rm",
    "stdbuf -o L rm x",
    "chroot / rm x",
    "flock lock rm x",
    "bash -o pipefail -c -- 'rm x'",
    "find . -exec echo -exec {} \\; -exec rm {} +",
  ])("%j is blocked", (line) => expect(decide(line)).toBe("blocked"));

  test("a stricter default counts for what no rule speaks of, and for what cannot be read", () => {
    expect(judgeCommand("cat x", rules, "blocked").decision).toBe("blocked");
    expect(judgeCommand("if x; then y; fi", rules, "blocked").decision).toBe("blocked");
    expect(judgeCommand("cat x", rules, "preApproved").decision).toBe("preApproved");
    expect(judgeCommand("`cat x`", rules, "preApproved").decision).toBe("ask");
  });
});

describe("where everything is allowed but what a rule restricts", () => {
  const decideOpenly = (line: string) =>
    judgeCommand(line, [...rules.slice(0, 2), { pattern: "curl", approval: "ask" }], "preApproved").decision;

  test.each([
    "git $X",
    "git p?sh",
    "xargs git",
    "xargs -I{} {}",
    "xargs -i bash -c {}",
    "find . -exec sh -c {} +",
    "echo rm | bash",
    "sh < x",
    ". ./x",
    "alias l=rm",
    "/usr/bin/curl x",
  ])("%j asks", (line) => expect(decideOpenly(line)).toBe("ask"));

  test.each(["git -C . status", "git log -- push", "bash -c ls", "xargs -I % cat %", "timeout 1 cat x"])(
    "%j runs",
    (line) => expect(decideOpenly(line)).toBe("preApproved"),
  );
});

test.each([
  "env ".repeat(4_000),
  `${"eval ".repeat(3_000)}rm`,
  `find ${"-exec find ".repeat(1_600)}`,
  `cat {${",".repeat(19_000)}`,
  "git ".repeat(100_000),
])("what is nested without end is asked at once", (line) => {
  const started = performance.now();

  expect(decide(line)).toBe("ask");

  expect(performance.now() - started).toBeLessThan(2_000);
});

test("whatever is put between, a command that is not allowed never passes unasked", () => {
  const joints = fc.constantFrom(" && ", " || ", "; ", " | ", "\n", " & ", ";", "|");
  const around = fc.constantFrom<[string, string]>(
    ["", ""],
    ["(", ")"],
    ["echo $(", ")"],
    ['echo "$(', ')"'],
    ["A=1 ", ""],
    ["env ", ""],
    ["xargs ", ""],
  );
  fc.assert(
    fc.property(
      fc.array(fc.constantFrom("ls", "git status", "npm test")),
      joints,
      around,
      ([...allowed], joint, [before, after]) => {
        const line = [...allowed, `${before}curl x${after}`, ...allowed].join(joint);
        expect(decide(line)).not.toBe("preApproved");
      },
    ),
  );
});

test("reading any line ends with commands or with a reason", () => {
  fc.assert(
    fc.property(
      fc.array(
        fc.constantFrom(
          "a",
          " ",
          "$(",
          ")",
          "(",
          "'",
          '"',
          "\\",
          "|",
          "&",
          ";",
          ">",
          "<",
          "\n",
          "$",
          "{",
          "}",
          "`",
          "#",
          "=",
          "1",
          "\r",
          "\u00a0",
        ),
        { maxLength: 30 },
      ),
      (parts) => {
        const read = readCommand(parts.join(""));
        if (read.kind === "clear") expect(read.commands.length).toBeGreaterThan(0);
        else expect(read.why).toMatch(/^(it|its|a) /);
      },
    ),
    { numRuns: 500 },
  );
});

test.each([
  "vim a",
  "less x",
  "ls; nano b",
  "python3",
  "node",
  "bash -i",
  "ssh host",
  "top",
  "git rebase -i HEAD~2",
  "git add -p",
  "git commit",
  "npm init",
  "tail -f log",
  "env vim",
  "sqlite3",
])("%j would wait for a person and is refused", (line) =>
  expect(interactiveProblem(line)).toMatch(/waits for somebody at a keyboard/),
);

test.each([
  "python3 a.py",
  "node -e 1",
  "echo 'print(1)' | python3",
  "git rebase main",
  "git commit -m x",
  "git commit -am x",
  "npm init -y",
  "tail -n 5 log",
  "vim --version",
  "cat less",
  "python3 < a.py",
])("%j would not wait", (line) => expect(interactiveProblem(line)).toBeUndefined());
