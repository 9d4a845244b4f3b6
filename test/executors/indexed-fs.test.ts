import fc from "fast-check";
import { Bash, InMemoryFs } from "just-bash";
import { expect, test } from "vitest";
import { IndexedFs, loadedTree } from "#executors/memory/indexed-fs.ts";
import { searchCommand } from "#executors/memory/search-command.ts";

const path = fc
  .array(fc.constantFrom("a", "b", "c"), { minLength: 1, maxLength: 3 })
  .map((names) => `/${names.join("/")}`);
const step = fc.oneof(
  fc.record({ name: fc.constantFrom("writeFile", "appendFile"), args: fc.tuple(path, fc.string()) }),
  fc.record({ name: fc.constant("mkdir"), args: fc.tuple(path, fc.constant({ recursive: true })) }),
  fc.record({ name: fc.constant("rm"), args: fc.tuple(path, fc.constant({ recursive: true })) }),
  fc.record({ name: fc.constant("cp"), args: fc.tuple(path, path, fc.constant({ recursive: true })) }),
  fc.record({ name: fc.constantFrom("mv", "symlink", "link"), args: fc.tuple(path, path) }),
);

async function apply(fs: InMemoryFs, { name, args }: { name: string; args: unknown[] }): Promise<string> {
  try {
    await (fs as unknown as Record<string, (...args: unknown[]) => Promise<void>>)[name]?.(...args);
    return "done";
  } catch (error) {
    return String(error);
  }
}

async function list(fs: InMemoryFs, folder: string): Promise<unknown> {
  return fs.readdirWithFileTypes(folder).catch(String);
}

async function filesBelow(fs: InMemoryFs, folder: string): Promise<string[]> {
  const entries = await fs.readdirWithFileTypes(folder).catch(() => []);
  const found = entries.map(async ({ name, isDirectory, isFile }) => {
    const path = folder === "/" ? `/${name}` : `${folder}/${name}`;
    return isDirectory ? filesBelow(fs, path) : isFile ? [path] : [];
  });
  return (await Promise.all(found)).flat();
}

test("after any operations, folders are listed as by the shell's own file system", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 25 }), async (steps) => {
      const plain = new InMemoryFs();
      const indexed = new IndexedFs();
      for (const path of ["/a/b", "/b/a/c", "/c"]) {
        plain.writeFileSync(path, new Uint8Array([1]));
        indexed.load(path, new Uint8Array([1]), 0o644);
      }

      for (const one of steps) {
        expect(await apply(indexed, one)).toBe(await apply(plain, one));
        for (const folder of ["/", "/a", "/a/", "/b/../a/b", "/c/c"]) {
          expect(await list(indexed, folder)).toEqual(await list(plain, folder));
        }
      }

      for (const file of await filesBelow(plain, "/")) {
        expect(indexed.loaded(file) ?? (await indexed.readFileBuffer(file))).toEqual(await plain.readFileBuffer(file));
      }
    }),
    { numRuns: 60 },
  );
});

test("files that the host loaded can be read synchronously until a script changes them", async () => {
  const fs = new IndexedFs();
  fs.load("/a/b.txt", new Uint8Array([1, 2]), 0o644);
  const before = fs.changes;

  expect(fs.loaded("/a/b.txt")).toEqual(new Uint8Array([1, 2]));
  expect(await fs.readdirWithFileTypes("/a")).toEqual([
    { name: "b.txt", isFile: true, isDirectory: false, isSymbolicLink: false },
  ]);
  expect(fs.changes).toBe(before);

  await fs.symlink("/a/b.txt", "/c");
  await fs.writeFile("/c", "x");

  expect(fs.loaded("/a/b.txt")).toBeUndefined();
  expect(fs.changes).toBeGreaterThan(before);
});

test.each([
  ["what the script wrote just before", "echo needle > new.txt; rm old.txt; grep -rl needle .", "./new.txt\n"],
  ["classes of letters", "rg -N '[[:alpha:]]eedle' old.txt", "needle and Straſſe\n"],
  ["letters without their case", "rg -il 'NEEDLE AND STRASSE'", "old.txt\n"],
  ["one of several words", "grep -rhE 'haystack|needle' .", "needle and Straſſe\n"],
  ["two patterns", "grep -rh -e haystack -e straw -e needle .", "needle and Straſſe\n"],
  ["what is not there, turned around", "grep -rLF needle . | sort", "./sub/other.txt\n"],
  ["lines without it", "rg -vN needle sub", "sub/other.txt:nothing\n"],
  ["text that means something elsewhere", "grep -rFc 'a.b' .", "./old.txt:0\n./sub/other.txt:0\n"],
])("a search finds %s", async (_, script, expected) => {
  const fs = new IndexedFs();
  fs.load("/w/old.txt", new Uint8Array(Buffer.from("needle and Straſſe\n")), 0o644);
  fs.load("/w/sub/other.txt", new Uint8Array(Buffer.from("nothing\n")), 0o644);
  const customCommands = [searchCommand("rg", fs), searchCommand("grep", fs)];

  const { stdout, stderr } = await new Bash({ fs, cwd: "/w", customCommands }).exec(script);

  expect([stdout, stderr]).toEqual([expected, ""]);
});

test("copying a tree takes linear time", async () => {
  const fs = new IndexedFs();
  const content = new Uint8Array(1);
  const write = Array.from({ length: 40_000 }, (_, n) => ({
    path: `packages/${n % 100}/src/deep/file-${n}.ts`,
    content,
    executable: false,
  }));
  const before = process.cpuUsage();

  await loadedTree(fs, async () => []).take({ write, remove: [], base: [] });

  const { user, system } = process.cpuUsage(before);
  // With a comparison for each two files, it takes more than five seconds.
  expect((user + system) / 1_000).toBeLessThan(2_500);
});
