import fc from "fast-check";
import { Bash, InMemoryFs } from "just-bash";
import { expect, test } from "vitest";
import { type DirectFiles, directFiles } from "#executors/memory/direct-files.ts";
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

function filesBelow(direct: DirectFiles, folder: string): string[] {
  return (direct.entries(folder) ?? []).flatMap(({ name, isDirectory, isFile }) => {
    const path = folder === "/" ? `/${name}` : `${folder}/${name}`;
    return isDirectory ? filesBelow(direct, path) : isFile ? [path] : [];
  });
}

test("folders list as the shell's own file system lists them, whatever was done to it", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 25 }), async (steps) => {
      const plain = new InMemoryFs();
      const indexed = new InMemoryFs();
      const direct = directFiles(indexed);

      for (const one of steps) {
        expect(await apply(indexed, one)).toBe(await apply(plain, one));
        for (const folder of ["/", "/a", "/a/", "/b/../a/b", "/c/c"]) {
          expect(await list(indexed, folder)).toEqual(await list(plain, folder));
        }
      }

      for (const file of filesBelow(direct, "/")) {
        expect(direct.content(file)).toEqual(await plain.readFileBuffer(file));
      }
    }),
    { numRuns: 60 },
  );
});

test("plain files are there to be read at once", () => {
  const fs = new InMemoryFs();
  const direct = directFiles(fs);
  fs.writeFileSync("/a/b.txt", new Uint8Array([1, 2]));

  expect(direct.content("/a/b.txt")).toEqual(new Uint8Array([1, 2]));
  expect(direct.entries("/a")).toEqual([{ name: "b.txt", isFile: true, isDirectory: false, isSymbolicLink: false }]);
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
  const fs = new InMemoryFs();
  const direct = directFiles(fs);
  fs.writeFileSync("/w/old.txt", new Uint8Array(Buffer.from("needle and Straſſe\n")));
  fs.writeFileSync("/w/sub/other.txt", new Uint8Array(Buffer.from("nothing\n")));
  const customCommands = [searchCommand("rg", direct), searchCommand("grep", direct)];

  const { stdout, stderr } = await new Bash({ fs, cwd: "/w", customCommands }).exec(script);

  expect([stdout, stderr]).toEqual([expected, ""]);
});
