import fc from "fast-check";
import { expect, test } from "vitest";
import { searchToolset } from "#toolsets/registry.ts";
import { codeSymbols, codeTerms, splitIdentifier, TermCounter } from "#toolsets/search/rank-files.ts";
import { anyText } from "../../support/hostile-text.ts";
import { runSpec, toolsetWorld, type WorldOptions } from "../../support/toolset-world.ts";

const files = {
  "src/uses.ts": 'import { parseCommand } from "./command";\nparseCommand(a);\nparseCommand(b);\nparseCommand(c);\n',
  "src/words.ts":
    "/** Reads what a person typed. */\nexport function parseCommand(text: string) {\n  return text;\n}\n",
  "src/permission.ts": "export class Gate {\n  checkPermission(who: string) {\n    return who;\n  }\n}\n",
  "lib/user_store.py": "def load_user(name):\n    return name\n",
  "docs/guide.md": "# Permission model\n\nWho may do what.\n",
  "logo.png": new Uint8Array([0, 1]),
};

async function best(query: string, options: WorldOptions = {}): Promise<string[]> {
  const { call } = await toolsetWorld(searchToolset, { files, ...options });
  const { value } = await call("search_code", { query });
  return (value as unknown as { data: { results: { path: string }[] } }).data.results.map(({ path }) => path);
}

test("a definition ranks above any number of uses", async () => {
  expect(await best("parseCommand")).toEqual(["src/words.ts", "src/uses.ts"]);
});

test.each([
  ["parse command", "src/words.ts"],
  ["where is the permission checked", "src/permission.ts"],
  ["permission model", "docs/guide.md"],
  ["loadUser", "lib/user_store.py"],
  ["user store", "lib/user_store.py"],
  ["person typed", "src/words.ts"],
])("%j finds %s first", async (query, path) => {
  expect((await best(query))[0]).toBe(path);
});

test("matching lines are shown, including the definition", async () => {
  const { call } = await toolsetWorld(searchToolset, { files });

  const { llmContent, value } = await call("search_code", {
    query: "parseCommand",
    path: "src",
    glob: "*.ts",
    limit: 1,
  });

  expect(llmContent).toBe(
    "2 files match parseCommand:\nsrc/words.ts\n  2: export function parseCommand(text: string) {\n… and 1 more that match less.",
  );
  expect(value).toMatchObject({ kind: "search.code", data: { total: 2 } });
});

test("a name with all words of the query ranks above names with one of them, and is shown before them", async () => {
  const others = Array.from({ length: 5 }, (_, at) => `def get_header_${at}(name):\n    return name\n`).join("");
  const uses = "self.parse(header)\n".repeat(20);
  const { call } = await toolsetWorld(searchToolset, {
    files: {
      "server.py": `${others}def parse_range_header(header):\n    return header\n${"other = 1\n".repeat(500)}`,
      "test_parse.py": `def parse(header):\n    return header\n${uses}`,
    },
  });

  const { llmContent } = await call("search_code", { query: "parse range header" });

  expect(llmContent).toMatch(/^2 files match parse range header:\nserver\.py\n/);
  expect(llmContent).toContain("  11: def parse_range_header(header):");
});

test("a definition is found after many lines that use its words", async () => {
  const { call } = await toolsetWorld(searchToolset, {
    files: {
      "server.py": `${"read(header)\n".repeat(200)}def parse_header(text):\n    return text\n`,
      "test_parse.py": "parse(header)\n".repeat(10),
    },
  });

  const { llmContent } = await call("search_code", { query: "parse header" });

  expect(llmContent).toMatch(/^2 files match parse header:\nserver\.py\n.* {2}201: def parse_header\(text\):/s);
});

test("a run finds its own changes, and no other run does", async () => {
  const spec = { ...runSpec, origin: { ...runSpec.origin, repo: "changes" } };
  const mine = await toolsetWorld(searchToolset, { files, services: { spec } });
  const other = await toolsetWorld(searchToolset, { files, services: { spec } });
  await mine.call("search_code", { query: "zebra" });
  await mine.sandbox.write("src/zebra.ts", "export const zebra = 1;\n");
  await mine.sandbox.write("src/words.ts", "export const nothing = 1;\n");

  expect((await mine.call("search_code", { query: "zebra" })).llmContent).toContain("src/zebra.ts");
  expect((await mine.call("search_code", { query: "parseCommand" })).llmContent).not.toContain("src/words.ts");
  expect((await other.call("search_code", { query: "zebra" })).llmContent).toBe("Nothing matches zebra.");
  expect((await other.call("search_code", { query: "parseCommand" })).llmContent).toContain("src/words.ts");
});

test("a query without words is refused", async () => {
  await expect(best("=> {")).rejects.toMatchObject({ code: "INVALID_ARGUMENTS" });
});

test.each([
  ["parseHTTPRequest_v2", ["parse", "http", "request", "v2"]],
  ["snake_case_name", ["snake", "case", "name"]],
  ["word", ["word"]],
  ["ÄrgerFall", ["ärger", "fall"]],
])("%s is %j", (word, parts) => {
  expect(splitIdentifier(word)).toEqual(parts);
});

test.each([
  ["export default async function load() {", "load"],
  ["  public static parse(text: string): Node {", "parse"],
  ["func (s *Server) Start() error {", "Start"],
  ["pub fn open(path: &str) -> File {", "open"],
  ["class Gate:", "Gate"],
  ["const answer = 42;", "answer"],
  ["function * walk(tree) {", "walk"],
  ["  *items() {", "items"],
  ["  #next () {\r", "next"],
  ["macro_rules! check {", "check"],
  ["const größe = 1;", "größe"],
  ["sds sdstrim(sds s, const char *cset) {", "sdstrim"],
  ["static inline struct entry *find_entry (int key){", "find_entry"],
  ["std::vector<int> Parser::readAll(const char* text) const {", "readAll"],
  ["    public Map<String, List<Node>> nodesOf(Tree tree) throws IOException {", "nodesOf"],
])("%s defines %s", (line, name) => {
  expect(codeSymbols([line], "a.code")).toEqual([{ name, line: 1 }]);
  const text = `use of ${name}\n${line}\nlast`;
  expect(new TermCounter([name.toLowerCase()]).scan(text, "a.code")).toEqual({ counts: [2], names: [name] });
});

test.each([
  "  if (x) {",
  "  for (const a of b) {",
  "  call(x);",
  "  return (a) => {",
  "  } else if (isOpen(x)) {",
  "  else if (isOpen(x)) {",
  "  if isOpen(x) {",
  "  for item in items(x) {",
  "  guard isOpen(x) else {",
  "  return load(function () {",
  "  new Promise(function () {",
  "  await load(function () {",
  "  sds sdstrim(sds s, const char *cset);",
])("%s is not a definition", (line) => {
  expect(codeSymbols([line], "a.code")).toEqual([]);
});

test("terms and symbols of any text are found quickly", () => {
  fc.assert(
    fc.property(anyText({ maxLength: 300 }), (text) => {
      expect(codeTerms(text).every((term) => term === term.toLowerCase())).toBe(true);
      codeSymbols(text.split("\n"), "a.ts");
    }),
  );
  codeSymbols(
    [
      `  ${"static ".repeat(57)}`,
      `${"a ".repeat(190)}(){`,
      `${"a * ".repeat(95)}(){`,
      ` ${"a(".repeat(190)}`,
      `${" ".repeat(399)}`,
    ],
    "a.ts",
  );
});
