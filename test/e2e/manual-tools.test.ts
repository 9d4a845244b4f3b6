import { afterAll, beforeAll, expect, test } from "vitest";
import { byTurn, call, type Stories, startStories } from "../support/forge-stories.ts";

let forge: Stories;

beforeAll(async () => {
  forge = await startStories();
  await forge.start();
});
afterAll(() => forge.close());

test("after a run, a maintainer lists the tools, views the diff, pushes it by hand, and undoes the change", async () => {
  const title = "Pushed by hand";
  const edit = { path: "src/total.js", old_text: "items.length + 1", new_text: "items.length" };
  const script = byTurn(call("read_file", { path: "src/total.js" }), call("edit_file", edit), { text: "It is fixed." });
  const { issue, comment, botComment, until, comments } = forge.open({ title, script });
  comment("/run fixer");
  await botComment(/It is fixed\./);

  // The tools, and the options of a push.
  comment("/tools");
  expect((await botComment(/Tools that people can call/)).body).toMatch(
    /\*\*Git\*\*[\s\S]*`\/git_push` Push to Remote/,
  );
  comment("/tool git_push -i");
  expect((await botComment(/### 🔧 Push to Remote/)).body).toContain("| \\--force | yes or no | no (default: false) |");

  // Typos are answered, and people without write access run nothing.
  comment("/tool git_psh");
  await botComment(/nothing was run\.[\s\S]*Did you mean git\\_push/);
  comment("/tool git_push", "visitor");
  await botComment(/you need write access/);
  expect(await branches()).toEqual(["main"]);

  // The diff, then the push, which has to be confirmed.
  comment("/git_diff");
  expect((await botComment(/`git_diff`, run by maintainer/)).body).toContain(
    "+export const total = (items) => items.length;",
  );
  comment('/git_push --message "Count every item once"');
  const asked = await botComment(/`git_push` (?:asks before it runs|needs confirmation)/);
  expect(asked.body).toContain("+export const total = (items) => items.length;");
  const { id } = comment(/^\/tool git_push .*$/m.exec(asked.body)?.[0] ?? "");
  const pushed = await botComment(/`git_push`, run by maintainer/);
  expect(pushed.body).toMatch(new RegExp(`Pushed [0-9a-f]{7} to golem/${issue.number}-`));
  const branch = (await branches()).find((name) => name.startsWith(`golem/${issue.number}-`)) ?? "";
  expect(await forge.github.readFile(branch, "src/total.js")).toBe("export const total = (items) => items.length;\n");
  await until(
    (thread) => thread.comments.find((one) => one.id === id && one.reactions.some((sign) => sign.endsWith("eyes"))),
    "👀 on the push",
  );

  // The status of the run says who ran what.
  await botComment(/fixer\*\* is done[\s\S]*@?maintainer ran git_push: Pushed/);
  comment("/tool undo");
  await botComment(/`undo`, run by maintainer/);

  // A command for another bot is ignored.
  const before = (await comments()).length;
  comment("/retest");
  comment("/git_status");
  expect((await botComment(/`git_status`, run by maintainer/)).body).toContain("No changes");
  expect(await comments()).toHaveLength(before + 1);
  expect(forge.github.unknownRequests()).toEqual([]);
});

async function branches(): Promise<string[]> {
  const [repository] = Object.values(await forge.github.snapshot());
  return Object.keys(repository?.branches ?? {});
}
