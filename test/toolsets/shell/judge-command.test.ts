// biome-ignore-all lint/suspicious/noTemplateCurlyInString: commands of bash
import { type StdioOptions, spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { CommandRule } from "#toolsets/shell/command-policy.ts";
import { interactiveProblem } from "#toolsets/shell/interactive-commands.ts";
import { judgeCommand } from "#toolsets/shell/judge-command.ts";
import { readScript } from "#toolsets/shell/plain-script.ts";
import type { SimpleCommand } from "#toolsets/shell/simple-command.ts";
import { propertyRuns } from "../../support/property-runs.ts";
import { escapingCommands } from "./escaping-commands.ts";
import { ordinaryCommands } from "./ordinary-commands.ts";

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
const decide = (line: string) => judgeCommand(line, { rules, otherwise: "ask" }).decision;

describe("a command line is allowed only when every command in it is", () => {
  test.each([
    "ls",
    "ls -la src",
    "git status && npm test",
    "git status -s | xargs ls",
    "echo 'a; rm b' \"&& rm\"",
    "ls 2>/dev/null; ls 2>&1",
    "(ls; echo done)",
    "echo \\; rm",
    "ls # rm -rf /",
    "find . -name '*.ts' -exec ls {} \\;",
    "ls \\\n  -la",
    "for i in 1; do ls; done",
    "{ ls; }",
    "! ls",
    "CI=1 npm test",
    'for f in a b; do ls "$f"; done',
    'for f in src/*.ts; do ls "$f"; done',
    "for f in src/*.ts; do ls $f; done",
    "ls src/*.ts",
    "ls HEAD~1",
    "echo \"^a$\" 'b$'",
    "ls <<'E'\nit's $(rm x)\nE\nls",
    "find . | while read -r f; do ls $f; done",
    "time ls",
    "if ls; then echo $?; else ls; fi",
    "while ls; do echo x; done",
    "for f in a b; do ls $f; done",
    "[[ -f a ]] && ls",
    'for i in {1..5}; do echo "step $i"; done',
    "ls src/{1..20}.ts",
  ])("%j runs", (line) => expect(decide(line)).toBe("preApproved"));

  test.each([
    "cat x",
    "FOO=1 npm test",
    "echo $(git status)",
    "env A=1 ls",
    "case x in a) ls;; esac",
    "ls `git status`",
    "f() { ls; }; ls",
    "ls &",
    "ls {}\\\ndo x",
    "!\\\n=ls",
    "PATH=a npm test",
    "CI=$(x) npm test",
    "for PATH in a; do ls; done",
    "for f in 'a -b'; do git status $f; done",
    "for f in *; do $f; done",
    "for f in a; do ls; done; ls $f",
    "while read -r f; do ls $f; done < a",
    "ls {1..x}",
    "ls {1..3'}'",
    "ls a={1..3}",
    "ls [{1..3}]",
    "{1..3}",
    "ls > {1..3}",
    "ls /{1..3}",
    "echo x | xargs ls",
    "ls 3>a",
    "ls >&3",
    "ls > /dev/tcp/host/1",
    "ls \\<<'E'\nx\nE",
    "ls '<<'E'\nx\nE",
    "ls # <<'E'\ncat x\nE",
    "ls \\ #$'x'",
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
    "ls `id`",
    "cat <<E\nls\nE",
    "ls <(cat x)",
    "ls 'unclosed",
    "ls (",
    "ls )",
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
    "x=/etc/shadow; ls $x",
    "ls $x",
    "ls *; ls ~",
    "case x in a) cat y;; esac",
    "while cat y; do ls; done",
    "f() { cat y; }",
    "ls $((a[0]))",
    "echo $(($x))",
    "((x))",
    'ls "${x[$(cat y)]}"',
    "echo ${x@P}",
    "ls [[ a ]] b",
    "ls src:/etc",
    "ls src,/etc",
    "< $x",
    "ls > out$x",
    "ls $'a'",
    "x=.; x+=.; ls $x",
    "ls <&-cat",
    "!!",
    "!ls",
    "x=(ls) ls",
    "ls $'\\x2f'",
    "ls \\",
    "coproc ls",
    "select x in a; do ls; done",
    "export PAGER=x; ls",
    "FOO=./tool ls",
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
    "for f in -delete; do find . $f; done",
    "alias l=rm",
    "git push origin main",
    "git push",
    "sudo nohup rm x",
    "for f in *; do rm $f; done",
    "x=1 rm y",
    "rm\u00a0x; rm y",
    "git -C . push",
    "git -c a=b --no-pager push",
    "git --no-pager -C . push",
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

  test("a stricter default applies to commands that no rule covers or that cannot be parsed", () => {
    expect(judgeCommand("cat x", { rules, otherwise: "blocked" }).decision).toBe("blocked");
    expect(judgeCommand("if x; then y; fi", { rules, otherwise: "blocked" }).decision).toBe("blocked");
    expect(judgeCommand("cat x", { rules, otherwise: "preApproved" }).decision).toBe("preApproved");
    expect(judgeCommand("`cat x`", { rules, otherwise: "preApproved" }).decision).toBe("ask");
  });
});

describe("a rule that restricts options", () => {
  const decideBy = (pattern: string, line: string) => {
    const [program = ""] = pattern.split(" ");
    const restricting: CommandRule[] = [
      { pattern, approval: "blocked" },
      { pattern: program, approval: "preApproved" },
    ];
    return judgeCommand(line, { rules: restricting, otherwise: "preApproved" }).decision;
  };

  test.each([
    ["rm -rf", "rm -fr a"],
    ["rm -rf", "rm -r -f a"],
    ["rm -rf", "rm a -Rvf"],
    ["rm -rf", "/bin/rm --recursive --force a"],
    ["rm -rf", "rm --rec --forc a"],
    ["rm -rf", "find . | xargs rm -r -f"],
    ["rm -rf", "echo $(rm -f -r a)"],
    ["rm --recursive", "rm -r a"],
    ["git push --force", "git push -f"],
    ["git push --force", "git push origin topic --force"],
    ["git push --force", "git -C . push -qf origin topic"],
    ["git push --force", "git push --forc origin topic"],
    ["git push -f", "git push origin --force topic"],
    ["sed -i", "sed -n --in-place=.old p a"],
    ["sed -i", "sed -Ei s/a/b/ a"],
    ["git commit --amend", "git commit -m x --amend"],
    ["git branch -D", "git branch -vD a"],
    ["git branch -D", "git branch -d -f a"],
    ["git branch -D", "git -C . branch --delete --force a"],
    ["git branch --delete --force", "git branch -D a"],
    ["git branch -d", "git branch -D a"],
    ["git push --force", "git push origin +main"],
    ["git push -f", "git push origin topic +HEAD:main"],
    ["git push --force", "git push --mirror origin"],
    ["git push --delete", "git push origin :topic"],
    ["git push --delete", "git push -d origin topic"],
    ["git push -d", "git push origin --delete topic"],
    ["git push origin +main", "git push --force origin main"],
    ["git push origin +main", "git push origin HEAD:refs/heads/main -f"],
    ["git push origin +main", "git push origin +refs/heads/m*:main"],
    ["git push origin +main", "echo $(git push -f origin main) $((1))"],
    ["git push --force origin main", "git push origin +HEAD:main"],
    ["git push origin main", "git push origin HEAD:main"],
    ["git push origin :main", "git push --delete origin main"],
    ["git push origin --delete main", "git push origin :main"],
    ["npm install", "npm i left-pad"],
    ["npm install", "npm --silent add left-pad"],
    ["npm i", "npm install left-pad"],
    ["pnpm add", "pnpm i left-pad"],
    ["cargo run", "cargo r"],
    ["npm install", "echo $(npm add x)"],
    ["find -delete", "find . -name x -delete"],
    ["curl -X POST", "curl https://a.org -XPOST"],
    ["curl -X POST", "curl https://a.org -X POST"],
    ["docker run --privileged", "docker run -it --privileged=true a"],
    ["./deploy.sh", "scripts/deploy.sh"],
  ])("%s blocks %j", (pattern, line) => expect(decideBy(pattern, line)).toBe("blocked"));

  test.each([
    // Only the program knows whether the letters are options, and what the words at run time are.
    ["docker run -it", "docker run -ti a"],
    ["docker run --privileged", "docker run --priv a"],
    ["rm -rf", "ls | xargs rm -r"],
    ["rm -rf", "for f in *; do rm -r a $f b; done"],
    ["rm -rf", "echo $(rm -r a) $((1))"],
  ])("%s asks about %j", (pattern, line) => expect(decideBy(pattern, line)).toBe("ask"));

  test.each([
    ["git p?sh", "ask", "`git p?sh` may become `git push`"],
    ["git -C . push", "blocked", "`git push` is blocked"],
    ["git -C . pull", "ask", "`git pull` is always asked"],
    ["git pull", "ask", "`git pull` is always asked"],
    ["git status", "preApproved", "`git` is allowed"],
  ])("the reason for the verdict on %j names the rule", (line, decision, reason) => {
    const restricting: CommandRule[] = [
      { pattern: "git push", approval: "blocked" },
      { pattern: "git pull", approval: "ask" },
      { pattern: "git", approval: "preApproved" },
    ];

    expect(judgeCommand(line, { rules: restricting, otherwise: "preApproved" })).toEqual({ decision, reason });
  });

  test.each([
    ["rm -rf", "rm -r a"],
    ["rm -rf", "rm -f a"],
    ["rm -rf", "rm rf"],
    ["git push --force", "git push --force-with-lease origin a"],
    ["git push --force", "git push origin main"],
    ["git push origin +main", "git push origin main"],
    ["git push origin +main", "git push --force origin topic"],
    ["npm install", "npm test"],
    ["git commit -a", "git commit -mabc"],
    ["git commit --all", "git commit --allow-empty -m x"],
    ["sed -i", "sed -e /i/p a"],
    ["find -delete", "find . -type d -empty -name delete"],
  ])("%s does not restrict %j", (pattern, line) => expect(decideBy(pattern, line)).toBe("preApproved"));
});

describe("a policy that allows everything that no rule restricts", () => {
  const decideOpenly = (line: string) =>
    judgeCommand(line, {
      rules: [...rules.slice(0, 2), { pattern: "curl", approval: "ask" }],
      otherwise: "preApproved",
    }).decision;

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
    "alias l=cat",
    "/usr/bin/curl x",
    "bash -c ls",
    "sort --compress-program=x a",
  ])("%j asks", (line) => expect(decideOpenly(line)).toBe("ask"));

  test.each([
    "git -C . status",
    "git log -- push",
    "npm test",
    "sed -i s/a/b/ x",
    "xargs -I % cat %",
    "timeout 1 cat x",
  ])("%j runs", (line) => expect(decideOpenly(line)).toBe("preApproved"));
});

describe("a rule that allows a program that is not in the table", () => {
  const decideBy = (pattern: string, line: string) =>
    judgeCommand(line, { rules: [{ pattern, approval: "preApproved" }], reading: "preApproved", otherwise: "ask" });

  test.each([
    ["python3 -m pytest", "python3 -m pytest tests/test_a.py::test_b tests"],
    ["./scripts/check.sh", "./scripts/check.sh src/*.ts && ls"],
    ["uv run pytest", "uv run pytest tests"],
    ["git tag", "git tag -d v1"],
    ["npx vitest run", "npx vitest run src/a.test.ts 2>&1 | tail -20"],
    ["python3", "python3 --version"],
    ["tox", "tox"],
    ["npm", "npm run build"],
    ["npm run", "npm run build"],
    ["sed", "sed -i s/a/b/ src/a.ts"],
    ["sort -o", "sort -o a.txt a.txt"],
  ])("%s allows %j", (pattern, line) => expect(decideBy(pattern, line).decision).toBe("preApproved"));

  test.each([
    ["python3", "python3 a.py", "a rule with `python3` alone does not say what `python3 a.py` may do"],
    ["python3 -m pytest", "python3 -m pytest -p x", "the rule does not include `-p`"],
    ["python3 -m pytest", "python3 -m pytest /etc/x", "`/etc/x` is outside the repository"],
    ["python3 -m pytest", "python3 -m pytest 'a;b'", "the rule does not include `a;b`"],
    ["python3 -m pytest", "python3 -m pytest *", "the rule does not include `*`"],
    ["tool *", "tool *", "no rule covers `tool *`"],
    ["tox", "tox -e py", "a rule with `tox` alone does not say what `tox -e py` may do"],
    ["tox", "cat a.sh | tox", "the input of `tox` may be code"],
    ["python3 -m", "echo 1 | python3 -m code", "the input of `python3` may be code"],
    ["bash -c", "bash -c ls", "the rule does not include `ls`"],
    ["uv run", "uv run ./tool", "the rule does not include `./tool`"],
    ["uv run --with x", "uv run --with x tool", "the rule does not include `tool`"],
    ["npx -p x", "npx -p x tool", "the rule does not include `tool`"],
    ["bundle exec", "bundle exec rake", "the rule does not include `rake`"],
    ["docker exec -it web", "docker exec -it web rm", "the rule does not include `rm`"],
    ["taskset -c 0", "taskset -c 0 rm", "the rule does not include `rm`"],
    ["taskset 0x1", "taskset 0x1 rm", "the rule does not include `rm`"],
    ["setpriv --no-new-privs", "setpriv --no-new-privs rm", "the rule does not include `rm`"],
    ["perf stat -d", "perf stat -d rm", "the rule does not include `rm`"],
    ["ssh host", "ssh host rm", "the rule does not include `rm`"],
    ["sudo -u nobody", "sudo -u nobody rm", "the rule does not include `rm`"],
    ["./scripts/check.sh", "/scripts/check.sh", "no rule covers `/scripts/check.sh`"],
    ["npm test", "npm test -- --config=x", "`npm test --config=x` is not known to be harmless"],
    ["npm test", "npm test --prefix x", "`npm test --prefix` is not known to be harmless"],
    ["npm test", "npm test > out", "`npm test` writes to a file"],
    ["xargs -a", "xargs -a list ./tool", "`xargs -a` is not known to be harmless"],
    ["sort", "sort *", "`*` may become an option of `sort`"],
  ])("%s does not allow %j", (pattern, line, reason) =>
    expect(decideBy(pattern, line)).toEqual({ decision: "ask", reason }),
  );
});

describe("commands that run other programs, write files or reach outside", () => {
  const asked = (command: string, program: string) =>
    judgeCommand(command, {
      rules: [{ pattern: program, approval: "preApproved" }],
      reading: "preApproved",
      otherwise: "ask",
    });

  test.each(Object.entries(escapingCommands))(
    "of %s are asked, though a rule allows the program",
    (program, commands) => {
      // The program's name alone is what such a rule allows.
      const silent = commands.filter(
        (command) => command !== program && asked(command, program).decision === "preApproved",
      );

      expect(silent).toEqual([]);
    },
  );

  test.each(["tar", "awk", "sed", "git", "sort", "python3", "sqlite3", "make"])(
    "of %s do not get past a rule that blocks another program",
    (program) => {
      const policy = { rules: [{ pattern: "rm", approval: "blocked" as const }], otherwise: "preApproved" as const };
      const startsProgram = (escapingCommands[program] ?? []).filter((command) => command.includes("./tool"));

      const silent = startsProgram.filter((command) => judgeCommand(command, policy).decision === "preApproved");

      expect(silent).toEqual([]);
    },
  );

  test("the number of tried commands and the share of ordinary ones that ask are the published ones", async () => {
    const named = (command: string) => [...new Set(command.match(/[a-z][\w-]*/g))];
    const asks = (rulesFor: (command: string) => CommandRule[]) =>
      ordinaryCommands.filter(
        (command) =>
          judgeCommand(command, { rules: rulesFor(command), reading: "preApproved", otherwise: "ask" }).decision ===
          "ask",
      ).length;
    const page = await readFile("docs/execution.md", "utf8");

    const byDefault = asks(() => []);
    const withRules = asks((command) => named(command).map((pattern) => ({ pattern, approval: "preApproved" })));

    const tried = Object.entries(escapingCommands).flatMap(([name, list]) =>
      list.filter((command) => command !== name),
    );
    const tools = new Set(Object.keys(escapingCommands).map((name) => name.split(" ")[0]));
    expect(page).toContain(`none of ${tried.length} ways to make ${tools.size} programs do more`);
    expect(page).toContain(`of ${ordinaryCommands.length} ordinary commands, ${byDefault} ask by default`);
    expect(page).toContain(`${withRules} ask where a rule allows each program by its name`);
  });
});

test.skipIf(!existsSync("/bin/bash"))("bash starts no program that the inspection did not find", async () => {
  const folder = await mkdtemp(join(tmpdir(), "shell-inspection-"));
  const random = mulberry32(20_260);
  const scripts = Array.from({ length: 6_000 }, () =>
    Array.from({ length: 2 + Math.floor(random() * 14) }, () => tokens[Math.floor(random() * tokens.length)]).join(""),
  );
  const inspected = scripts.flatMap((script) => {
    const read = readScript(script);
    if (read.kind !== "plain") return [];
    const isKnown = read.commands.every(
      ({ words: [program] }) => program?.kind === "literal" && !/^(eval|exec|env|command)$/.test(program.text),
    );
    return isKnown ? [{ script, commands: read.commands }] : [];
  });

  const started = programsOf(
    inspected.map(({ script }) => script),
    folder,
  );
  const missed = inspected.filter(({ commands }, at) =>
    started[at]?.some((words) => !commands.some((command) => isAsInspected(command, words))),
  );

  expect(inspected.length).toBeGreaterThan(100);
  expect(started.flat().length).toBeGreaterThan(100);
  expect(missed.map(({ script }) => script)).toEqual([]);
  await rm(folder, { recursive: true });
});

/**
 * The commands that bash starts for each script, by the handler that it calls for programs it does not find. One process runs
 * all scripts, each in a subshell.
 */
function programsOf(scripts: readonly string[], cwd: string): string[][][] {
  const handler = 'command_not_found_handle() { local IFS=\u001f; printf "%s\\036" "$atScript\u001f$*" >&9; }';
  const each = 'for script; do atScript=$((atScript + 1)); (ulimit -t 5; eval "$script"); done; printf "end\\036" >&9';
  const stdio: StdioOptions = [...["pipe", "ignore", "ignore"], ...Array<"ignore">(6).fill("ignore"), "pipe"] as never;
  const { output } = spawnSync(
    "/bin/bash",
    ["--norc", "--noprofile", "-c", `PATH=/nonexistent; atScript=-1; ${handler}; ${each}`, "bash", ...scripts],
    { cwd, env: {}, input: "", timeout: 120_000, maxBuffer: 100_000_000, stdio },
  );
  const lines = String(output?.[9] ?? "").split("\u001e");
  expect(lines).toContain("end");
  const started = scripts.map((): string[][] => []);
  for (const line of lines) {
    const [at = "", ...words] = line.split("\u001f");
    if (words.some(Boolean)) started[Number(at)]?.push(words);
  }
  return started;
}

function isAsInspected({ words }: SimpleCommand, started: string[]): boolean {
  if (words[0]?.text !== started[0]) return false;
  if (words.some(({ kind }) => kind !== "literal")) return true;
  return words.length === started.length && words.every(({ text }, at) => text === started[at]);
}

function mulberry32(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}

// biome-ignore format: one line for each kind
const tokens = [
  ..."a b c a b c a b".split(" "), " ", " ", " ", " ", " ", " ", "\t", "\\\n", "a\\\nb",
  "'", '"', "\\", "'ab'", "'a;b'", '"a b"', "''", "a\\ b", "\\'", '"a\\"b"', "#", " #", " # b\n",
  "; ", ";", " && ", " || ", " | ", "|&", "\n", "\n", "! ", "!", " &", "time ",
  "(", ")", "{ ", ";}", "}", "if ", ";then ", ";fi ", "elif ", "else ", "[[ a ]] ", "[[ -f a ]] ", "[ a ] ",
  "for i in a c;do ", "for i in *;do ", "while read -r i;do ", "while ", "until ", "do ", ";done ", "$i", '"$i"', '"a$i"',
  " 2>/dev/null", " >a", " 2>&1", " <b", " <&-", " &>a", "2>a ", "<<<", "<<E\n", "<<'E'\n", "\nE\n", "E",
  "*", "[", "]", "[ab]", "?", "{}", "{a,b}", "{1..3}", "{2..", "1}", "~", "a~1", "-", "--", "=", "a=", "CI=1 ", "x=a ", "x+=(b)", "@(a|b)",
  "$(", "`", "$'", '$"', "$x", "$?", "$((1))", "$[1+1]", "((", "))", "<(", '"a$(b)"', '"a$"', "b()", "f() { ",
  "case a in a) ", ";;esac", "function f { ", "coproc ", "select ", "eval ",
];

test.each([
  ["/usr/bin/git push", "blocked"],
  ['g"i"t pu\\sh; echo $[1]', "blocked"],
  ["git --force push; echo $[1]", "blocked"],
  ["./cat x", "ask"],
  ["cat x", "preApproved"],
])("%j is %s, whatever rule comes first", (line, decision) => {
  const restricting: CommandRule[] = [
    { pattern: "git", approval: "ask" },
    { pattern: "git push", approval: "blocked" },
  ];

  expect(judgeCommand(line, { rules: restricting, reading: "preApproved", otherwise: "ask" }).decision).toBe(decision);
});

test.each([
  "env ".repeat(4_000),
  `${"eval ".repeat(3_000)}rm`,
  `find ${"-exec find ".repeat(1_600)}`,
  `cat {${",".repeat(19_000)}`,
  `${`for a in ${"a ".repeat(900)};do `.repeat(8)}[[ -f a ]]${";done".repeat(8)}`,
  `${"( ".repeat(6_000)}ls${" )".repeat(6_000)}`,
  "git ".repeat(100_000),
])("deeply nested input does not run, without long parsing", (line) => {
  const started = process.cpuUsage().user;

  expect(decide(line)).not.toBe("preApproved");

  expect((process.cpuUsage().user - started) / 1_000).toBeLessThan(20_000);
});

test("a command that is not allowed never runs without asking, in any context", () => {
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

test("parsing any line gives commands or a reason", () => {
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
        const read = readScript(parts.join(""));
        if (read.kind === "plain") expect(read.commands.length).toBeGreaterThan(0);
        else expect(read.reason).toMatch(/^(it|its|a|the|`\$\w+`) /);
      },
    ),
    { numRuns: propertyRuns(500) },
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
  "timeout 5 vim",
  "find . -exec vim {} \\;",
  "sqlite3",
])("%j would wait for a person and is refused", (line) =>
  expect(interactiveProblem(line)).toMatch(/waits for input from a keyboard/),
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
])("%j would not wait for a person", (line) => expect(interactiveProblem(line)).toBeUndefined());
