import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { readReport } from "#toolsets/code/run-tests.ts";
import { summarizeTests } from "#toolsets/code/test-output/summarize-tests.ts";
import type { TestReport } from "#toolsets/code/test-runner.ts";
import { anyText } from "../../../support/hostile-text.ts";

const jest = JSON.stringify({
  numPassedTests: 3,
  numFailedTests: 1,
  numPendingTests: 2,
  testResults: [
    {
      name: "/workspace/a.test.js",
      status: "failed",
      assertionResults: [
        { status: "passed", fullName: "adds" },
        {
          status: "failed",
          fullName: "sums subtracts",
          failureMessages: ["\u001b[31mError: expected 1\u001b[39m\n    at a.test.js:3\n"],
        },
      ],
    },
    { name: "/workspace/b.test.js", status: "failed", message: "SyntaxError: oh", assertionResults: [] },
  ],
});

const tap = `TAP version 13
# Subtest: sums
    # Subtest: adds
    not ok 1 - adds
      ---
      duration_ms: 1.1
      type: 'test'
      failureType: 'testCodeFailure'
      error: |-
        Expected values to be strictly equal:

        -1 !== 3

      code: 'ERR_ASSERTION'
      ...
    1..1
not ok 1 - sums
  ---
  failureType: 'subtestsFailed'
  error: '1 subtest failed'
  ...
ok 2 - other
1..2
# tests 2
# pass 1
# fail 1
# cancelled 0
# skipped 0
# todo 0
`;

const pytest = `..F                                                  [100%]
=================================== FAILURES ===================================
___________________________________ test_add ___________________________________

    def test_add():
>       assert add(1, 2) == 3
E       assert -1 == 3
E        +  where -1 = add(1, 2)

test_sums.py:4: AssertionError
=========================== short test summary info ============================
PASSED test_sums.py::test_a
FAILED test_sums.py::test_add - assert -1 == 3
1 failed, 2 passed, 1 skipped in 0.02s
`;

const go = [
  { Action: "run", Package: "ex/sums", Test: "TestAdd" },
  { Action: "output", Package: "ex/sums", Test: "TestAdd", Output: "=== RUN   TestAdd\n" },
  { Action: "output", Package: "ex/sums", Test: "TestAdd/one", Output: "    sums_test.go:6: got -1, want 3\n" },
  { Action: "fail", Package: "ex/sums", Test: "TestAdd/one" },
  { Action: "fail", Package: "ex/sums", Test: "TestAdd" },
  { Action: "pass", Package: "ex/sums", Test: "TestOther" },
  { Action: "skip", Package: "ex/sums", Test: "TestSkipped" },
  { Action: "fail", Package: "ex/sums" },
  { Action: "output", Package: "ex/broken", Output: "./b.go:3: undefined: x\n" },
  { Action: "fail", Package: "ex/broken" },
]
  .map((event) => JSON.stringify(event))
  .join("\n");

const cargo = `running 2 tests
test tests::other ... ok
test tests::adds ... FAILED

failures:

---- tests::adds stdout ----
thread 'tests::adds' panicked at src/lib.rs:9:9:
assertion \`left == right\` failed

failures:
    tests::adds

test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s
test result: ok. 2 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s
`;

const mocha = JSON.stringify({
  stats: { passes: 2, failures: 1, pending: 1 },
  failures: [
    {
      fullTitle: "sums adds",
      err: { message: "expected -1 to equal 3", stack: "AssertionError: expected -1 to equal 3\n    at x" },
    },
  ],
});

describe("a runner's output becomes counts, names and first error lines", () => {
  test("the output of jest and vitest names a file that did not load", () => {
    expect(summarizeTests("jest", `> test\n> jest {}\n\n${jest}\n`, "")).toEqual({
      passed: 3,
      failed: 2,
      skipped: 2,
      failures: [
        { name: "sums subtracts", error: "Error: expected 1\n    at a.test.js:3" },
        { name: "/workspace/b.test.js", error: "SyntaxError: oh" },
      ],
    });
  });

  test("the summary of node --test names the test itself, not the suite around it", () => {
    expect(summarizeTests("tap", tap, "")).toEqual({
      passed: 1,
      failed: 1,
      skipped: 0,
      failures: [{ name: "adds", error: expect.stringContaining("-1 !== 3") }],
    });
  });

  test.each([
    [
      "node --test",
      ["location: '/workspace/a.test.js:3:1'", "error: |-", "  Not equal:", "", "  -1 !== 3", "", "expected: 3"],
      ["Not equal:", "", "-1 !== 3", "at /workspace/a.test.js:3:1"],
    ],
    [
      "tap",
      [
        "compare: ===",
        "at:",
        "  line: 52",
        "  column: 7",
        "  file: test/a.js",
        "stack: |",
        "  test/a.js:52:7",
        "diff: |",
      ]
        .concat(["  --- expected", "  +++ actual", "  -premajor", "  +major"])
        .concat(["source: |", "  t.equal(a, b)"]),
      ["--- expected", "+++ actual", "-premajor", "+major", "at test/a.js:52:7"],
    ],
    ["tap, values of one line", ["found: 1", "wanted: 2", "compare: ==="], ["found: 1", "wanted: 2"]],
    [
      "ava",
      ["name: AssertionError", "assertion: is", "values:", "  'Difference (- actual, + expected):': |-"]
        .concat(["    - 1", "    + 2"])
        .concat(["message: Values differ", "at: 'test.js:3:4'"]),
      ["Values differ", "Difference (- actual, + expected):", "  - 1", "  + 2", "test.js:3:4"],
    ],
    ["another program", ["reason: broken", "code: 7"], ["reason: broken", "code: 7"]],
  ])("in TAP of %s, the difference and the location come first", (_, details, shown) => {
    const lines = [
      "TAP version 13",
      "not ok 1 - adds",
      "  ---",
      ...details.map((line) => `  ${line}`),
      "  ...",
      "1..1",
    ];

    expect(summarizeTests("tap", lines.join("\n"), "")?.failures).toEqual([{ name: "adds", error: shown.join("\n") }]);
  });

  test("the output of pytest becomes counts, names and first error lines", () => {
    expect(summarizeTests("pytest", pytest, "")).toEqual({
      passed: 2,
      failed: 1,
      skipped: 1,
      failures: [{ name: "test_sums.py::test_add", error: expect.stringContaining("E       assert -1 == 3") }],
    });
  });

  test("the output of go test shows the innermost failure, and a package that does not build", () => {
    expect(summarizeTests("go", go, "")).toEqual({
      passed: 1,
      failed: 2,
      skipped: 1,
      failures: [
        { name: "ex/sums TestAdd/one", error: "sums_test.go:6: got -1, want 3" },
        { name: "ex/broken", error: "./b.go:3: undefined: x" },
      ],
    });
  });

  test("the output of cargo test is summed over all its binaries", () => {
    expect(summarizeTests("cargo", cargo, "")).toMatchObject({
      passed: 3,
      failed: 1,
      skipped: 1,
      failures: [{ name: "tests::adds", error: expect.stringContaining("panicked at src/lib.rs:9:9") }],
    });
  });

  test("the output of mocha becomes counts, names and first error lines", () => {
    expect(summarizeTests("mocha", mocha, "")).toMatchObject({
      passed: 2,
      failed: 1,
      skipped: 1,
      failures: [{ name: "sums adds" }],
    });
  });

  test("the output of rspec becomes counts, names and first error lines", () => {
    const examples = [
      { full_description: "Sum adds", status: "passed" },
      {
        full_description: "Sum subtracts",
        status: "failed",
        exception: { message: "\n  expected: 1\n       got: 3\n" },
      },
    ];
    const counts = { example_count: 2, failure_count: 1, pending_count: 0, errors_outside_of_examples_count: 1 };

    expect(summarizeTests("rspec", `Loading …\n${JSON.stringify({ examples, summary: counts })}`, "")).toEqual({
      passed: 1,
      failed: 2,
      skipped: 0,
      failures: [{ name: "Sum subtracts", error: "expected: 1\n     got: 3" }],
    });
  });

  test("an unknown runner is summarized by common patterns of output", () => {
    expect(summarizeTests("plain", "\u001b[32m  7 passing\u001b[0m (3ms)\n  2 failing\n", "")).toMatchObject({
      passed: 7,
      failed: 2,
    });
    expect(summarizeTests("plain", "", "Tests: 1 failed, 4 passed, 5 total")).toMatchObject({ passed: 4, failed: 1 });
    const ofParson = "OK (tested 536 failing allocations)\nTests failed: 0\nTests passed: 340\n";
    expect(summarizeTests("plain", ofParson, "")).toMatchObject({ passed: 340, failed: 0 });
    const ofUvu = "  Total:     4\n  Passed:    3\n  Skipped:   0\n  Duration:  1.2ms\n";
    expect(summarizeTests("plain", ofUvu, "")).toMatchObject({ passed: 3, failed: 1, skipped: 0 });
    expect(summarizeTests("plain", "all is well", "")).toBeUndefined();
  });
});

test("jest with --bail prints text instead of JSON, which is read as well, also behind the names of packages", () => {
  const lines = [
    "FAIL src/a.test.js",
    "  ● sums › adds",
    "",
    "    Expected: 2",
    "    Received: 0",
    "",
    "Test Suites: 1 failed, 2 passed, 3 of 19 total",
    "Tests:       1 failed, 1 skipped, 71 passed, 73 total",
  ];
  const failures = [{ name: "sums › adds", error: "Expected: 2\nReceived: 0" }];

  expect(summarizeTests("jest", "", lines.join("\n"))).toEqual({ passed: 71, failed: 1, skipped: 1, failures });
  const turbo = [...lines, "Tests:       4 passed, 4 total"].map((line) => `@acme/ui:test: ${line}`);
  expect(summarizeTests("plain", turbo.join("\n"), "")).toEqual({ passed: 75, failed: 1, skipped: 1, failures });
});

test("the output of minitest becomes counts, names and first error lines", () => {
  const stdout = [
    "F.",
    "  1) Failure:",
    "Sum#test_0001_adds [spec/sum_spec.rb:5]:",
    "Expected: 2",
    "  Actual: 0",
    "",
    "3 runs, 3 assertions, 1 failures, 0 errors, 1 skips",
  ].join("\n");

  expect(summarizeTests("minitest", stdout, "")).toEqual({
    passed: 1,
    failed: 1,
    skipped: 1,
    failures: [{ name: "Sum#test_0001_adds [spec/sum_spec.rb:5]", error: "Expected: 2\n  Actual: 0" }],
  });
});

const maven = `[INFO] Running demo.CalcTest
hello
[ERROR] Tests run: 4, Failures: 1, Errors: 1, Skipped: 1, Time elapsed: 0.412 s <<< FAILURE! -- in demo.CalcTest
[ERROR] demo.CalcTest.breaks -- Time elapsed: 0.253 s <<< ERROR!
java.lang.NullPointerException: Cannot invoke "String.length()" because "s" is null
\tat demo.CalcTest.breaks(CalcTest.java:6)
\tat java.base/java.lang.reflect.Method.invoke(Method.java:569)
\tat java.base/java.util.ArrayList.forEach(ArrayList.java:1511)

[ERROR] demo.CalcTest.adds -- Time elapsed: 0.018 s <<< FAILURE!
org.opentest4j.AssertionFailedError: expected: <3> but was: <4>
\tat org.junit.jupiter.api.AssertEquals.failNotEqual(AssertEquals.java:197)
\tat org.junit.jupiter.api.Assertions.assertEquals(Assertions.java:531)
\tat demo.CalcTest.adds(CalcTest.java:5)

[INFO] Results:
[INFO]
[ERROR] Failures:
[ERROR]   CalcTest.adds:5 expected: <3> but was: <4>
[INFO]
[ERROR] Tests run: 4, Failures: 1, Errors: 1, Skipped: 1
[INFO]
[INFO] Running demo.AppTest
[INFO] Tests run: 2, Failures: 0, Errors: 0, Skipped: 0, Time elapsed: 0.018 s -- in demo.AppTest
[INFO] Tests run: 2, Failures: 0, Errors: 0, Skipped: 0
`;

const ctest = `Test project /tmp/build
    Start 1: adds
1/6 Test #1: adds .............................   Passed    0.02 sec
    Start 2: subtracts two
2/6 Test #2: subtracts two ....................***Failed    0.01 sec
bad.c:5: expected 1 but got 2

    Start 3: crashes
3/6 Test #3: crashes ..........................Subprocess aborted***Exception:   0.08 sec

    Start 4: skipped
4/6 Test #4: skipped ..........................***Skipped   0.00 sec
    Start 5: matches
5/6 Test #5: matches ..........................***Failed  Required regular expression not found. Regex=[zebra
]  0.01 sec

    Start 6: off
6/6 Test #6: off ..............................***Not Run (Disabled)   0.00 sec
    Start 7: missing
Could not find executable nowhere
Looked in the following places:
Release/nowhere
7/7 Test #7: missing ..........................***Not Run   0.00 sec

17% tests passed, 4 tests failed out of 6
`;

const gradle = `> Task :compileTestJava
> Task :test FAILED

CalcTest > adds() FAILED
    org.opentest4j.AssertionFailedError: expected: <3> but was: <4>
        at app//org.junit.jupiter.api.Assertions.assertEquals(Assertions.java:531)
        at app//demo.CalcTest.adds(CalcTest.java:5)

CalcTest > later() SKIPPED

CalcTest > inner > passes() PASSED

3 tests completed, 1 failed, 1 skipped

FAILURE: Build failed with an exception.
`;

test("Maven, over its modules, without the frames of Java and JUnit", () => {
  const expected = {
    passed: 3,
    failed: 2,
    skipped: 1,
    failures: [
      {
        name: "demo.CalcTest.breaks",
        error:
          'java.lang.NullPointerException: Cannot invoke "String.length()" because "s" is null\n\tat demo.CalcTest.breaks(CalcTest.java:6)',
      },
      {
        name: "demo.CalcTest.adds",
        error:
          "org.opentest4j.AssertionFailedError: expected: <3> but was: <4>\n\tat demo.CalcTest.adds(CalcTest.java:5)",
      },
    ],
  };
  expect(summarizeTests("maven", maven, "")).toEqual(expected);
  expect(summarizeTests("plain", maven, "")).toEqual(expected);
  // Stopped before the totals, and as Surefire 2 prints it.
  const stopped =
    "Tests run: 2, Failures: 1, Errors: 0, Skipped: 0, Time elapsed: 0.1 sec <<< FAILURE! - in demo.ATest\nadds(demo.ATest)  Time elapsed: 0.05 sec  <<< FAILURE!\njava.lang.AssertionError: no\n";
  expect(summarizeTests("maven", stopped, "")).toEqual({
    passed: 1,
    failed: 1,
    skipped: 0,
    failures: [{ name: "adds(demo.ATest)", error: "java.lang.AssertionError: no" }],
  });
});

test("Gradle, with the name and the stack of each failed test", () => {
  expect(summarizeTests("gradle", gradle, "")).toEqual({
    passed: 1,
    failed: 1,
    skipped: 1,
    failures: [
      {
        name: "CalcTest > adds()",
        error:
          "org.opentest4j.AssertionFailedError: expected: <3> but was: <4>\n    at app//demo.CalcTest.adds(CalcTest.java:5)",
      },
    ],
  });
});

test("of a failed CTest program, the cases that passed are left out", () => {
  const text = [
    "1/1 Test #1: numbers ...............***Failed    0.01 sec",
    "tests/a.c:10:parses_zero:PASS",
    "tests/a.c:53:parses_one:FAIL: Expected TRUE Was FALSE",
    "[ RUN      ] Numbers.Two",
    "[       OK ] Numbers.Two (0 ms)",
    "[  FAILED  ] Numbers.Three (0 ms)",
    "ok 4 - four",
    "",
    "0% tests passed, 1 tests failed out of 1",
  ].join("\n");

  expect(summarizeTests("ctest", text, "")?.failures).toEqual([
    {
      name: "numbers",
      error: "Failed\ntests/a.c:53:parses_one:FAIL: Expected TRUE Was FALSE\n[  FAILED  ] Numbers.Three (0 ms)",
    },
  ]);
});

test("CTest, with the output of each failed test, also below another command", () => {
  const expected = {
    passed: 1,
    failed: 4,
    skipped: 2,
    failures: [
      { name: "subtracts two", error: "Failed\nbad.c:5: expected 1 but got 2" },
      { name: "crashes", error: "Subprocess aborted Exception:" },
      { name: "matches", error: "Failed  Required regular expression not found. Regex=[zebra\n]  0.01 sec" },
      { name: "missing", error: "Not Run\nCould not find executable nowhere" },
    ],
  };
  expect(summarizeTests("ctest", ctest, "")).toEqual(expected);
  expect(summarizeTests("plain", `make[1]: Entering directory '/tmp'\n${ctest}`, "")).toEqual(expected);
  expect(summarizeTests("ctest", "No tests were found!!!\n", "")).toMatchObject({ passed: 0, failed: 0 });
});

test("no output makes a parser fail, complete or truncated", () => {
  const samples = fc.constantFrom(jest, tap, pytest, go, cargo, mocha, maven, gradle, ctest);
  const kinds = fc.constantFrom(
    "jest",
    "vitest",
    "mocha",
    "tap",
    "pytest",
    "go",
    "cargo",
    "maven",
    "gradle",
    "ctest",
    "plain" as const,
  );
  fc.assert(
    fc.property(kinds, samples, fc.nat(2_000), anyText(), (kind, sample, at, noise) => {
      const text = sample.slice(0, at) + noise + sample.slice(at);
      const summary = summarizeTests(kind as Parameters<typeof summarizeTests>[0], text, noise);
      if (summary) expect(Math.min(summary.passed, summary.failed, summary.skipped)).toBeGreaterThanOrEqual(0);
    }),
  );
});

test.each<[TestReport, string, string]>([
  ["pytest", "FAILED a\n", "1 passed in 1s"],
  ["plain", "\n{", ""],
  ["vitest", '\n{"a":[', "}"],
  ["tap", "not ok 1 - a\n", "\n# pass 1\n# fail 1\n"],
  ["cargo", "---- a stdout ----\n", "\ntest result: x. 1 passed; 1 failed; 0 ignored"],
  ["jest", " FAIL a > b\n", "Tests:  1 failed"],
  ["minitest", " 1) Error:\n", "\n1 runs, 1 assertions, 0 failures, 1 errors"],
  ["go", '{"Action":"fail","Package":"a","Test":"b"}\n', ""],
  ["plain", "\u001b]", ""],
  ["maven", " Time elapsed: 1 s <<< ", "\nTests run: 1, Failures: 1, Errors: 0, Skipped: 0"],
  ["gradle", " > a FAILED", "\na > b FAILED"],
  ["ctest", "1/1 Test #1: . .. ", "\n1/1 Test #1: a ... Passed 1 sec"],
])("a %s report of 100,000 characters of %j is parsed or refused quickly", (report, unit, end) => {
  expect(cpuOf(report, unit.repeat(100_000 / unit.length) + end)).toBeLessThan(5_000);
});

test.each<[TestReport, string, string]>([
  ["maven", "Tests run: 1, Failures: 0, Errors: 0, Skipped: 0\nx", ""],
  ["ctest", "1/1 Test #1: a ...", "x"],
])("a %s report with a line of 100,000 spaces is parsed quickly", (report, before, after) => {
  expect(cpuOf(report, `${before}${" ".repeat(100_000)}${after}\n`)).toBeLessThan(5_000);
});

/** Returns the milliseconds of CPU that it takes to summarize a report. */
function cpuOf(report: TestReport, text: string): number {
  const before = process.threadCpuUsage();
  summarizeTests(report, text, "");
  const { user, system } = process.threadCpuUsage(before);
  return (user + system) / 1_000;
}

test("a long report is parsed in a separate process, and a hostile one ends with that process", async () => {
  const passing = `# pass 7\n# fail 0\n${"ok 1 - a\n".repeat(20_000)}`;
  const nothing = `${"{}\n".repeat(50_000)}`;

  expect(await readReport({ report: "tap", stdout: passing, stderr: "" })).toMatchObject({ passed: 7, failed: 0 });
  const end = `${"PASSED test_a.py::test_a\n".repeat(20_000)}FAILED test_a.py::test_b[x y] - assert 1\n1 failed, 2 passed in 3s`;
  const events = `{"Action":"pass","Package":"a","Test":"TestA"}\n`.repeat(6_000);
  expect(await readReport({ report: "go", stdout: events, stderr: "" }, { killAfterMs: 1 })).toMatchObject({
    passed: 1,
  });
  const killed = await readReport({ report: "pytest", stdout: end, stderr: "" }, { killAfterMs: 1 });
  expect(killed).toMatchObject({ passed: 2, failed: 1, failures: [{ name: "test_a.py::test_b[x y]" }] });
  expect(await readReport({ report: "vitest", stdout: nothing, stderr: "" })).toBeUndefined();
});

test("a file that crashed in node --test is shown with its error, whichever reporter the script asks for", () => {
  const tap = [
    "TAP version 13",
    "# Error [ERR_MODULE_NOT_FOUND]: Cannot find package 'x' imported from /workspace/a.test.js",
    "#     at packageResolve (node:internal/modules/esm/resolve:751:25)",
    "# Subtest: a.test.js",
    "not ok 1 - a.test.js",
    "  ---",
    "  error: 'test failed'",
    "  ...",
    "# pass 0",
    "# fail 1",
  ];
  const spec = [
    "Error [ERR_MODULE_NOT_FOUND]: Cannot find package 'x' imported from /workspace/a.test.js",
    "✖ a.test.js (72.5ms)",
    "ℹ pass 0",
    "ℹ fail 1",
    "✖ failing tests:",
    "",
    "test at a.test.js:1:1",
    "✖ a.test.js (72.5ms)",
    "  'test failed'",
  ];

  for (const lines of [tap, spec]) {
    const failures = summarizeTests("tap", lines.join("\n"), "")?.failures;
    expect(failures?.[0]?.name).toBe("a.test.js");
    expect(failures?.[0]?.error).toMatch(/^Error \[ERR_MODULE_NOT_FOUND\]: Cannot find package 'x' imported from .*\n/);
  }
});

test("the output of node's spec reporter is understood, where a script asks for it", () => {
  const text = [
    "✔ ok (0.4ms)",
    "▶ suite",
    "  ✖ bad one (1.2ms)",
    "▶ suite (2ms)",
    "﹣ later (0.1ms) # SKIP",
    "ℹ tests 3",
    "ℹ pass 1",
    "ℹ fail 1",
    "ℹ skipped 1",
    "ℹ todo 0",
    "",
    "✖ failing tests:",
    "",
    "test at a.test.mjs:1:109",
    "✖ bad one (1.2ms)",
    "  AssertionError [ERR_ASSERTION]: 1 == 2",
    "      at TestContext.<anonymous> (a.test.mjs:1:141)",
  ].join("\n");

  const summary = summarizeTests("tap", text, "");

  expect(summary).toMatchObject({ passed: 1, failed: 1, skipped: 1 });
  expect(summary?.failures).toEqual([{ name: "bad one", error: expect.stringMatching(/^AssertionError.*1 == 2\n/) }]);
});

test("the failures that jest printed before it was stopped are listed", () => {
  const text = [
    "FAIL test/a.test.ts",
    "  sums",
    "    ✓ adds (2 ms)",
    "  ● sums › subtracts",
    "",
    "    Expected 1, received 2",
    "",
    "      at Object.<anonymous> (test/a.test.ts:4:1)",
  ].join("\n");

  expect(summarizeTests("jest", "", text)).toEqual({
    passed: 1,
    failed: 1,
    skipped: 0,
    failures: [
      { name: "sums › subtracts", error: "Expected 1, received 2\n\n  at Object.<anonymous> (test/a.test.ts:4:1)" },
    ],
  });
  expect(summarizeTests("jest", "", "PASS test/a.test.ts\n")).toBeUndefined();
});

test("failures are read from unittest's stderr", () => {
  const line = (char: string) => char.repeat(70);
  const stderr = [
    "E.Fs",
    line("="),
    "ERROR: test_err (test_a.T.test_err)",
    line("-"),
    "Traceback (most recent call last):",
    '  File "/workspace/test_a.py", line 5, in test_err',
    "    raise KeyError('x')",
    "KeyError: 'x'",
    "",
    line("="),
    "FAIL: test_bad (test_a.T.test_bad)",
    line("-"),
    "Traceback (most recent call last):",
    '  File "/workspace/test_a.py", line 4, in test_bad',
    "    self.assertEqual(1, 2)",
    "AssertionError: 1 != 2",
    "",
    line("-"),
    "Ran 4 tests in 0.001s",
    "",
    "FAILED (failures=1, errors=1, skipped=1)",
  ].join("\n");

  const summary = summarizeTests("unittest", "", stderr);

  expect(summary).toEqual({
    passed: 1,
    failed: 2,
    skipped: 1,
    failures: [
      {
        name: "test_err (test_a.T.test_err)",
        error: "KeyError: 'x'\n  File \"/workspace/test_a.py\", line 5, in test_err",
      },
      {
        name: "test_bad (test_a.T.test_bad)",
        error: 'AssertionError: 1 != 2\n  File "/workspace/test_a.py", line 4, in test_bad',
      },
    ],
  });
});

test("go test: a panic is located in the project, not in the runtime", () => {
  const output = [
    "=== RUN   TestNormalizationFuncShouldChangeFlagName",
    "--- FAIL: TestNormalizationFuncShouldChangeFlagName (0.00s)",
    "panic: runtime error: invalid memory address or nil pointer dereference [recovered]",
    "\tpanic: runtime error: invalid memory address or nil pointer dereference",
    "[signal SIGSEGV: segmentation violation code=0x1 addr=0x0 pc=0x5395cd]",
    "",
    "goroutine 72 [running]:",
    "testing.tRunner.func1.2({0x57ac60, 0x6c2220})",
    "\t/usr/lib/go-1.19/src/testing/testing.go:1396 +0x24e",
    "testing.tRunner.func1()",
    "\t/usr/lib/go-1.19/src/testing/testing.go:1399 +0x39f",
    "panic({0x57ac60, 0x6c2220})",
    "\t/usr/lib/go-1.19/src/runtime/panic.go:884 +0x212",
    "github.com/spf13/pflag.TestNormalizationFuncShouldChangeFlagName(0xc000191d40)",
    "\t/workspace/flag_test.go:1016 +0x18d",
    "testing.tRunner(0xc000191d40, 0x5b00d8)",
    "\t/usr/lib/go-1.19/src/testing/testing.go:1446 +0x10b",
    "created by testing.(*T).Run",
    "\t/usr/lib/go-1.19/src/testing/testing.go:1493 +0x35f",
  ];
  const at = { Package: "github.com/spf13/pflag", Test: "TestNormalizationFuncShouldChangeFlagName" };
  const events = [
    ...output.map((line) => ({ Action: "output", ...at, Output: `${line}\n` })),
    { Action: "fail", ...at, Elapsed: 0 },
  ];

  const summary = summarizeTests("go", events.map((event) => JSON.stringify(event)).join("\n"), "");

  expect(summary?.failures).toEqual([
    {
      name: "github.com/spf13/pflag TestNormalizationFuncShouldChangeFlagName",
      error: expect.stringContaining("\t/workspace/flag_test.go:1016 +0x18d"),
    },
  ]);
  expect(summary?.failures[0]?.error).not.toContain("/usr/lib/go-1.19");
});

test("pytest: a file that cannot be imported, next to the tests that ran", () => {
  const stdout = [
    "........................................................................ [ 97%]",
    "...........                                                              [100%]",
    "==================================== ERRORS ====================================",
    "__________________ ERROR collecting tests/test_toml_tests.py ___________________",
    "tests/test_toml_tests.py:118: in <module>",
    "    ) = _build_cases()",
    "tests/test_toml_tests.py:55: in _load_case_list",
    '    with open(FILES_LIST, encoding="utf-8") as f:',
    "E   FileNotFoundError: [Errno 2] No such file or directory: '/workspace/tests/toml-test/tests/files-toml-1.1.0'",
    "==================================== PASSES ====================================",
    "=========================== short test summary info ============================",
    "ERROR tests/test_toml_tests.py - FileNotFoundError: [Errno 2] No such file or...",
    "371 passed, 1 error in 13.26s",
  ].join("\n");

  const summary = summarizeTests("pytest", stdout, "");

  expect(summary).toMatchObject({ passed: 371, failed: 1, skipped: 0 });
  expect(summary?.failures).toEqual([
    { name: "tests/test_toml_tests.py", error: expect.stringContaining("FileNotFoundError: [Errno 2]") },
  ]);
});

test("node --test: the failures of a run that was stopped before its totals", () => {
  const stopped = tap.slice(0, tap.indexOf("1..2\n"));

  expect(summarizeTests("tap", stopped, "")).toMatchObject({ passed: 1, failed: 1, failures: [{ name: "adds" }] });
  expect(summarizeTests("plain", "ok 1 - it works\n", "")).toBeUndefined();
});
