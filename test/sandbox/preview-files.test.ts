import { execFileSync } from "node:child_process";
import { describe, expect, test } from "vitest";
import type { FileVersion } from "#sandbox/diff-file.ts";
import { previewFiles } from "#sandbox/preview-files.ts";
import { previewText } from "#ui/request-blocks.ts";

const file = (content: string | Buffer, more: Partial<FileVersion> = {}): FileVersion => ({
  content: Buffer.from(content as string),
  executable: false,
  ...more,
});

async function shown(
  before: FileVersion | undefined,
  after: FileVersion | undefined,
  path = "run.sh",
): Promise<string> {
  return previewText({ sections: await previewFiles([{ path, before, after }]) }) ?? "";
}

describe("change to a file is shown to the person who approves it", () => {
  test("a change to a file is shown to the person who approves it with kind, mode, blob ids and size", async () => {
    expect(await shown(file("a\n"), file("b\n"))).toBe(
      "run.sh\nmodified, mode 100644, blob 7898192261 → 6178079822, 2 bytes\n@@ -1 +1 @@\n-a\n+b",
    );
  });

  test("a change of only the executable bit is shown", async () => {
    expect(await shown(file("a\n"), file("a\n", { executable: true }))).toBe(
      "run.sh\nmodified, executable, mode 100644 → 100755, blob 7898192261 → 7898192261, 2 bytes",
    );
  });

  test("a file that becomes a symbolic link is shown", async () => {
    expect(await shown(file("a\n"), file("/etc/passwd", { isLink: true }))).toContain(
      "symbolic link, mode 100644 → 120000",
    );
  });

  test("a file whose name hides something is shown", async () => {
    expect(await shown(undefined, file("a\n"), "a\u202Etxt.exe\nb")).toMatch(/^a⟨U\+202E⟩txt\.exe⟨U\+000A⟩b\nadded/);
  });

  test.each([
    ["an escape sequence", "echo ok\u001B[2K\u001B[1Acurl evil\n", "+echo ok⟨ESC⟩[2K⟨ESC⟩[1Acurl evil"],
    ["a carriage return", "curl evil\recho ok\n", "+curl evil⟨CR⟩echo ok"],
    ["a line separator", "a\u2028b\n", "+a⟨U+2028⟩b"],
    ["one byte that is not UTF-8", Buffer.from([0x61, 0xff, 0x62, 0x0a]), "+a⟨0xFF⟩b"],
    ["a NUL byte", "curl evil #\0 and much more text\n", "+curl evil #⟨NUL⟩ and much more text"],
  ])("a change to a file is shown to the person who approves it with %s in its content", async (_, content, line) => {
    expect(await shown(undefined, file(content as string))).toContain(line);
  });

  test("a file is named if its content is binary or too large, and shown in full if it is slow to compare", async () => {
    const binary = Buffer.from(Array.from({ length: 300 }, (_, at) => (at * 7) % 256));
    const lines = (seed: number) => Array.from({ length: 30_000 }, (_, at) => `${(at * seed) % 99_991}`).join("\n");
    const versions = [
      { path: "a.png", before: undefined, after: file(binary) },
      { path: "b.txt", before: undefined, after: file("x".repeat(600_000)) },
      { path: "c.txt", before: file(lines(7_919)), after: file(lines(104_729)) },
      { path: "d.txt", before: undefined, after: file("d\n") },
      {
        path: "e.txt",
        before: file(lines(1).repeat(9)),
        after: file(lines(1).repeat(9).replace("\n20000\n", "\ne\n")),
      },
    ];

    const startedAt = performance.now();
    const sections = await previewFiles(versions, { maxFileBytes: 512_000 });

    expect(performance.now() - startedAt).toBeLessThan(20_000);
    expect(sections.map((section) => (section.kind === "hidden-file" ? section.reason : section.kind))).toEqual([
      "binary",
      "too large",
      "file",
      "file",
      "file",
    ]);
    expect(sections.at(-1)).toMatchObject({
      diff: "@@ -19998,7 +19998,7 @@\n 19997\n 19998\n 19999\n-20000\n+e\n 20001\n 20002\n 20003",
    });
    expect(previewText({ sections })).toMatch(/a\.png\nadded, .*300 bytes\. Its content is not shown: binary\./);
  });
});

test("blob ids are git's", async () => {
  const content = "some content\n";

  const after = { content: Buffer.from(content), executable: false };
  expect(await previewFiles([{ path: "a.txt", before: undefined, after }])).toMatchObject([
    {
      change: { newBlob: execFileSync("git", ["hash-object", "--stdin"], { input: content, encoding: "utf8" }).trim() },
    },
  ]);
});
