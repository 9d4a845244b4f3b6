import { copyFileSync, readdirSync, readFileSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { gunzipSync } from "node:zlib";
import { expect, test } from "vitest";
import { golemWorld, write } from "../support/golem-world.ts";

const done = { text: "It is done." };
const overwrite = write("a.txt", "again\n");

/** Leaves a run after its first change was approved and while the second one waits. Returns its id. */
async function interrupted(world: Awaited<ReturnType<typeof golemWorld>>): Promise<string> {
  const run = world.give(["run", "careful", "tidy up"]);
  await run.sees("Approve?");
  run.type("y");
  await run.sees(/Approve\?.*Approve\?/s);
  run.interrupt();
  await run.sees("Enter a message to continue");
  run.interrupt();
  await run.code;
  const [, id = ""] = /golem resume (\w+)/.exec(run.text()) ?? [];
  return id;
}

function databaseOf(world: Awaited<ReturnType<typeof golemWorld>>, id: string): string {
  const files = readdirSync(world.env.XDG_STATE_HOME, { recursive: true, encoding: "utf8" });
  return join(world.env.XDG_STATE_HOME, files.find((name) => name.endsWith(`${id}.db`)) ?? "");
}

test("an interrupted run is resumed with a message, and keeps its files and its conversation", async () => {
  const world = await golemWorld({ turns: [write(), overwrite, done] });
  const id = await interrupted(world);

  const resumed = world.give(["resume", id.slice(0, 4)]);
  await resumed.sees("Enter a message to continue");
  resumed.type("go on");
  await resumed.sees("[a]pply");
  resumed.type("a");

  expect(await resumed.code).toBe(0);
  expect(world.sent()).toMatch(/tidy up.*go on/s);
  expect(world.read("a.txt")).toBe("worker\n");
  const again = world.give(["resume", id]);
  expect(await again.code).toBe(2);
  expect(again.errors()).toContain(`The run ${id} has ended and cannot be resumed.`);
});

test("a resumed run applies its changes to what the person has written since", async () => {
  const files = { "a.txt": "one\ntwo\nthree\nfour\nfive\n" };
  const turns = [write("a.txt", "ONE\ntwo\nthree\nfour\nfive\n"), overwrite, done];
  const world = await golemWorld({ turns, files });
  const id = await interrupted(world);
  world.write("a.txt", "one\ntwo\nthree\nfour\nFIVE\n");

  const resumed = world.give(["resume", id]);
  await resumed.sees("Enter a message to continue");
  resumed.type("");
  await resumed.sees("[a]pply");
  resumed.type("a");
  await resumed.code;

  expect(world.read("a.txt")).toBe("ONE\ntwo\nthree\nfour\nFIVE\n");
});

test("a run that answered is resumed where its changes are delivered", async () => {
  const world = await golemWorld({ turns: [write(), done] });
  await world.give(["run", "careful", "tidy up", "--yes", "all"], { isTTY: false }).code;

  const resumed = world.give(["resume", "--apply"], { isTTY: false });

  expect(await resumed.code).toBe(0);
  expect(world.read("a.txt")).toBe("worker\n");
  expect(world.model.requests).toHaveLength(2);
  expect(world.kept()).toEqual([]);
});

test("golem log lists the runs of the checkout, and shows the transcript of one", async () => {
  const world = await golemWorld({ turns: [write(), overwrite, done] });
  const none = world.give(["log"]);
  await none.code;
  const id = await interrupted(world);
  const file = databaseOf(world, id);
  const older = new URL("../runtime/store/earlier-versions/schema-5.db.gz", import.meta.url);
  writeFileSync(file.replace(id, "01de5000"), gunzipSync(readFileSync(older)));

  world.write(".github/golem-forge.yml", "instructoins: x\n");
  const list = world.give(["log"], { change: { GOLEM_FORGE_POLICY: "/no/such/policy.yml" } });
  const shown = world.give(["log", id]);
  await list.code;
  const earlier = file.replace(id, "0ea71e50");
  copyFileSync(file, earlier);
  utimesSync(earlier, 1, 1);
  await world.give(["log"]).code;
  const again = world.give(["log"]);
  const unknown = world.give(["log", "zzz"]);

  expect([await list.code, await shown.code, await unknown.code]).toEqual([0, 0, 2]);
  expect(none.text()).toBe("No runs of this checkout are saved. Start one with golem run.\n");
  expect(list.text()).toMatch(new RegExp(`^${id}  [\\d: -]+  careful  interrupted  tidy up\\n$`));
  expect(shown.text()).toMatch(
    /^> tidy up\n\? write_file \{.*\n {2}approved\n● write_file .*\n└> .*\n\? write_file \{.*\nInterrupted\.\n2 approvals requested, 1 answered after .* s on average\n$/,
  );
  expect(unknown.errors()).toContain('Run "zzz" not found in this checkout.');
  await again.code;
  expect(again.text().match(/^\w{8}/gm)).toEqual([id, "0ea71e50"]);
});

test("a run that is open in another terminal is not resumed, and one that never started is not kept", async () => {
  const world = await golemWorld({ turns: [{ hang: true, text: "Let me" }] });
  const unasked = world.give(["run", "careful"]);
  await unasked.sees("What should careful do?");
  unasked.interrupt();
  await unasked.code;
  const running = world.give(["run", "careful", "please"]);
  await running.sees("Let me");

  const second = world.give(["resume"]);
  expect(await second.code).toBe(2);
  expect(second.errors()).toMatch(/^golem: The run \w+ is open in another terminal\.\n$/);
  running.type("/exit");
  await running.code;
  const list = world.give(["log"]);
  await list.code;

  expect(list.text().trim().split("\n")).toHaveLength(1);
});

test("a run whose state folder cannot be written works, and says that it cannot be resumed", async () => {
  const world = await golemWorld({ turns: [done] });
  world.write("state-file", "");

  const run = world.give(["run", "careful", "please"], { change: { XDG_STATE_HOME: world.at("state-file") } });

  expect(await run.code).toBe(0);
  expect(run.text()).toContain("This run cannot be resumed later: ");
});

test("a run that a newer release has written is named in the list, and not resumed", async () => {
  const world = await golemWorld({ turns: [write(), overwrite, done] });
  const id = await interrupted(world);
  const database = new DatabaseSync(databaseOf(world, id));
  database.exec("update runs set snapshot = json_set(snapshot, '$.version', 900)");
  database.close();

  const list = world.give(["log"]);
  const resumed = world.give(["resume", id]);

  expect([await list.code, await resumed.code]).toEqual([0, 2]);
  expect(list.text()).toContain("was stored by a newer release of Golem Forge");
  expect(resumed.errors()).toMatch(/^golem: .*was stored by a newer release of Golem Forge/);
  expect(resumed.errors()).not.toContain("    at ");
});
