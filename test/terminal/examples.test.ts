import {
  appendFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { type ChatRequest, startModelServer } from "#playground/model/model-server.ts";
import { giveGolem, type Turn } from "../support/golem-world.ts";

/** A copy of the examples outside of git, and a model with a script for each worker. */
async function examples(scripts: Record<string, readonly Turn[]>) {
  const folder = mkdtempSync(join(tmpdir(), "golem-examples-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  cpSync("examples", folder, { recursive: true });
  const turns = new Map<string, number>();
  const model = await startModelServer({
    script(request) {
      const worker = Object.keys(scripts).find((start) => systemOf(request).startsWith(start)) ?? "";
      const turn = turns.get(worker) ?? 0;
      turns.set(worker, turn + 1);
      return scripts[worker]?.[turn] ?? { text: `Nothing is scripted for: ${systemOf(request).slice(0, 60)}` };
    },
  });
  onTestFinished(() => model.close());
  const env = {
    OPENAI_COMPATIBLE_BASE_URL: model.url,
    GOLEM_FORGE_SANDBOX: "off",
    XDG_STATE_HOME: join(folder, "state"),
  };

  return {
    folder,
    model,
    /** Every message and result that the model was given. */
    sent: () => JSON.stringify(model.requests.map(({ messages }) => messages)),
    read: (path: string) => readFileSync(join(folder, path), "utf8"),
    /** Runs a command as a script does, in the folder of the examples. */
    async golem(words: readonly string[], { isTTY = false, cwd = folder } = {}) {
      const model = words[0] === "run" ? ["--model", "compatible:scripted"] : [];
      const given = giveGolem([...words, ...model], { isTTY, cwd, env });
      const code = await given.code;
      return { code, answer: given.output().trim(), errors: given.errors() };
    },
  };
}

function systemOf({ messages }: ChatRequest): string {
  return String(messages.find(({ role }) => role === "system")?.content ?? "");
}

const call = (name: string, args: object): Turn => ({ calls: [{ name, args }] });

describe("the programs in examples/ run unchanged, outside of git", () => {
  test("greeter: golem run <folder>", async () => {
    const { golem, sent } = await examples({ "You are a friendly greeter": [{ text: "Hello, Ada!" }] });

    expect(await golem(["run", "./greeter", "My name is Ada"])).toMatchObject({ code: 0, answer: "Hello, Ada!" });
    expect(sent()).toContain("My name is Ada");
  });

  test("calculator: the tools of tools.ts need no flag", async () => {
    const { golem, sent } = await examples({
      "You are a calculator": [
        call("calculateFactorial", { n: 25 }),
        call("calculateFibonacci", { n: 50 }),
        { text: "Both are calculated." },
      ],
    });

    expect(await golem(["run", "calculator/main.worker", "25! and fib 50"])).toMatchObject({ code: 0 });
    expect(sent()).toContain("15511210043330985984000000");
    expect(sent()).toContain("12586269025");
  });

  test("file manager: sandbox.root is what it sees, and zones decide about approval", async () => {
    const { golem, sent, folder } = await examples({
      "You manage the files": [
        call("list_directory", { path: "." }),
        call("write_file", { path: "scratch/list.txt", content: "two files\n" }),
        call("move_file", { from: "report-2019.txt", to: "archive/report-2019.txt" }),
        call("delete_file", { path: "archive/report-2019.txt" }),
        { text: "Archived one file." },
      ],
    });

    const { code, errors } = await golem(["run", "file-manager", "Clean up", "--yes", "move_file", "--apply"]);

    expect([code, errors]).toEqual([0, expect.stringContaining("Applied to")]);
    expect(sent()).toContain("this worker may not delete archive/report-2019.txt");
    expect(existsSync(join(folder, "file-manager/files/archive/report-2019.txt"))).toBe(true);
    expect(existsSync(join(folder, "file-manager/files/report-2019.txt"))).toBe(false);
    expect(existsSync(join(folder, "file-manager/files/scratch/list.txt"))).toBe(true);
    expect(sent()).not.toContain("main.worker");
  });

  test("note taker: a tool reads text as text, and changes files like every tool", async () => {
    const { golem, read } = await examples({
      "You keep notes": [
        call("addNote", { subject: "garden", text: "The tulips bloom in April" }),
        { text: "Noted in garden.md." },
      ],
    });

    const { code } = await golem(["run", "./note-taker", "Tulips bloom in April", "--yes", "addNote", "--apply"]);

    expect(code).toBe(0);
    expect(read("note-taker/notes/garden.md")).toBe(
      "# garden\n- The roses need water on Mondays\n- The tulips bloom in April\n",
    );
  });

  test("code analyzer: a read-only sandbox, rules of the shell, and a called worker", async () => {
    const { golem, sent, read, folder } = await examples({
      "You analyze code": [
        call("shell", { command: "wc -l totals.js" }),
        call("shell", { command: "rm totals.js" }),
        call("write_file", { path: "totals.js", content: "" }),
        call("complexity", { input: "totals.js", instructions: "Rate it." }),
        { text: "It sums prices." },
      ],
      "You are given the path": [call("read_file", { path: "totals.js" }), { text: "low: it is one loop." }],
    });

    // The depth in its program's configuration is no change to a locked worker.
    const locked = read("code-analyzer/main.worker").replace("---", "---\nlocked: true");
    writeFileSync(join(folder, "code-analyzer/main.worker"), locked);

    expect(await golem(["run", "code-analyzer", "What does it do?"])).toMatchObject({ code: 0 });
    expect(sent()).toContain("5 totals.js");
    expect(sent()).toContain("it is read-only for this worker");
    expect(sent()).toContain('"content":"totals.js\\n\\nRate it."');
    expect(sent()).toContain("low: it is one loop.");
  });

  test("orchestrator: workers by name, and an answer that is checked against its schema", async () => {
    const { golem, sent, read } = await examples({
      "You direct a writer": [
        call("writer", { input: "Golems" }),
        call("editor", { input: "Golems are clay." }),
        call("write_file", { path: "final.md", content: "Golems are made of clay.\n" }),
        { text: "The text is in final.md." },
      ],
      "You are a writer": [{ text: "Golems are clay." }],
      "You are an editor": [{ text: "I like it." }, { text: '{ "accepted": true, "changes": [] }' }],
    });

    expect(await golem(["run", "orchestrator", "A text about golems", "--apply"])).toMatchObject({ code: 0 });
    expect(sent()).toContain("does not match the output schema");
    expect(read("orchestrator/final.md")).toBe("Golems are made of clay.\n");
  });

  test("pdf analyzer: a file of the program is attached to a called worker, also a large one", async () => {
    const { golem, sent, read, folder } = await examples({
      "You summarize documents": [
        call("list_directory", { path: "/documents" }),
        call("pdf_reader", { input: "Summarize it", attachments: ["documents/report.pdf"] }),
        call("write_file", { path: "/summaries/report.md", content: "Revenue: 42\n" }),
        { text: "One summary is written." },
      ],
      "You are given a PDF": [{ text: "Revenue in 2025: 42" }],
    });

    const report = join(folder, "pdf-analyzer/documents/report.pdf");
    appendFileSync(report, Buffer.alloc(3_000_000));

    expect(await golem(["run", "pdf-analyzer", "Summarize all", "--apply"])).toMatchObject({ code: 0 });
    expect(sent()).toContain(readFileSync(report).toString("base64"));
    expect(read("pdf-analyzer/summaries/report.md")).toBe("Revenue: 42\n");
  });

  test("whiteboard: a picture that is given with --attach", async () => {
    const { golem, sent, read } = await examples({
      "You turn the picture": [
        call("write_tasks", { tasks: [{ content: "Build", activeForm: "Building", status: "pending" }] }),
        call("write_file", { path: "plan.md", content: "1. Build\n" }),
        { text: "The plan is in plan.md." },
      ],
    });

    const words = ["run", "whiteboard", "--attach", "whiteboard/board.png", "Make a plan", "--apply"];
    expect(await golem(words)).toMatchObject({ code: 0 });
    expect(sent()).toContain(readFileSync("examples/whiteboard/board.png").toString("base64"));
    expect(read("whiteboard/plan.md")).toBe("1. Build\n");
  });
});

describe("program", () => {
  const writes = (path: string) => ({
    "You are a friendly": [call("write_file", { path, content: "new\n" }), { text: "Done." }],
  });
  /** The greeter with another configuration, and with files. */
  function change(folder: string, config: string): void {
    const file = join(folder, "greeter/main.worker");
    writeFileSync(
      file,
      readFileSync(file, "utf8").replace(
        "allow_empty_input",
        "toolsets: { filesystem: {} }\nsandbox: { approval: { write: ask } }\n$&",
      ),
    );
    writeFileSync(join(folder, "greeter/a.txt"), "old\n");
    writeFileSync(join(folder, "greeter/golem-forge.config.yaml"), config);
  }

  test.each([
    ["interactive", "old\n", "there is no terminal to ask for approval"],
    ["auto_deny", "old\n", "the program's configuration denies every call that needs approval"],
    ["approve_all", "new\n", "Approved in advance: all tools"],
  ])("a program's approval mode is obeyed: %s", async (mode, content, message) => {
    const { golem, folder, read, sent } = await examples(writes("a.txt"));
    change(folder, `approval: { mode: ${mode} }\n`);

    const { errors } = await golem(["run", "./greeter", "Write it", "--apply"]);

    expect(read("greeter/a.txt")).toBe(content);
    expect(errors + sent()).toContain(message);
  });

  test("a program is run by the name of a worker from inside its folder", async () => {
    const { golem, folder } = await examples({ "You are a writer": [{ text: "Clay." }] });
    const cwd = join(folder, "orchestrator");

    expect(await golem(["run", "writer", "Golems"], { cwd })).toMatchObject({ code: 0, answer: "Clay." });
    expect(await golem(["run", "workers/writer.worker", "Golems"], { cwd })).toMatchObject({ code: 0 });
    expect((await golem(["log"], { cwd })).answer).toContain("writer");
  });

  test("a program starts with index.worker where there is no main.worker, and runs without a worker that is missing", async () => {
    const { golem, folder, sent } = await examples({
      "You greet": [call("translator", { input: "A rhyme" }), { text: "Hello!" }],
    });
    const worker = (name: string, more = "") => `---\nname: ${name}${more}\n---\nYou greet.\n`;
    mkdirSync(join(folder, "older"));
    writeFileSync(join(folder, "older/index.worker"), worker("host", "\nallowed_workers: [translator]"));
    writeFileSync(join(folder, "older/other.worker"), worker("other"));

    expect(await golem(["run", "older", "Hi"])).toMatchObject({ code: 0, answer: "Hello!" });
    expect(sent()).toContain("Worker translator, which toolsets.workers.allowed names, was not found.");
  });

  test("a program finds workers in subfolders of its worker folders, and * means all workers but the caller", async () => {
    const { golem, folder, model } = await examples({ "You are main": [{ text: "Hello!" }] });
    const worker = (path: string, name: string, more = "") => {
      mkdirSync(dirname(join(folder, path)), { recursive: true });
      writeFileSync(join(folder, path), `---\nname: ${name}${more}\n---\nYou are ${name}.\n`);
    };
    worker("deep/main.worker", "main-one", '\nallowed_workers: "*"');
    worker("deep/workers/a/sage.worker", "sage");
    worker("deep/.workers/poet.worker", "poet");

    expect(await golem(["run", "deep", "Hi"])).toMatchObject({ code: 0 });
    expect(model.requests[0]?.tools.map((tool) => tool.function.name)).toEqual(["sage", "poet"]);
  });

  test("a program names the settings that have no effect here, and refuses wrong ones", async () => {
    const { golem, folder } = await examples(writes("b.txt"));
    change(folder, "ui: { theme: dark }\nsandbox: { root: ., mode: sandboxed }\n");
    expect((await golem(["run", "./greeter", "Write it"])).errors).toContain(
      "The program's configuration has settings without effect: ui, sandbox.mode.",
    );

    change(folder, "approval: { mode: always }\n");
    expect(await golem(["run", "./greeter", "Write it"])).toMatchObject({
      code: 2,
      errors: expect.stringContaining("golem-forge.config.yaml is not valid: approval.mode:"),
    });
  });

  test("a program asks for trust before it reads files outside of its folder, or fetches pages unasked", async () => {
    const { golem, folder } = await examples(writes("b.txt"));
    change(folder, "sandbox: { root: .. }\n");

    expect(await golem(["run", "./greeter", "Write it"])).toMatchObject({
      code: 2,
      errors: expect.stringMatching(/uses: the files in .*golem-examples.*, outside of its folder\. Review it/),
    });
  });

  test.each([
    [["run", "./nothing", "x"], "nothing cannot be read: there is no such file or folder."],
    [["run", "./orchestrator/schemas", "x"], "orchestrator/schemas has no worker: a program has a main.worker."],
    [["run", "./orchestrator/workers", "x"], "Name one of them: editor.worker, writer.worker."],
  ])("%j says what is missing", async (words, message) => {
    const { golem } = await examples({});

    expect(await golem(words)).toMatchObject({ code: 2, errors: expect.stringContaining(message) });
  });
});
