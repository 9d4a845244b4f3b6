import { statSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { startAtTerminal } from "../support/golem-process.ts";
import { golemWorld, write } from "../support/golem-world.ts";

test.skipIf(process.platform !== "linux")(
  "a run whose process is killed while it waits for an approval is resumed: the same files, and the request again",
  async () => {
    const world = await golemWorld({
      turns: [
        { calls: [{ name: "write_file", args: { path: "new.txt", content: "first\n" } }] },
        write("a.txt", "worker\n"),
        { text: "It is done." },
      ],
      files: { "b.txt": "b\n" },
    });

    const killed = await startAtTerminal(["run", "careful", "please"], world);
    await killed.sees("Approve?");
    const requests = world.model.requests.length;
    killed.kill();
    await killed.ended;
    world.write("a.txt", "a\nperson\n");
    world.write("b.txt", "changed meanwhile\n");
    const resumed = await startAtTerminal(["resume"], world);
    await resumed.sees("Approve?");
    expect(world.model.requests).toHaveLength(requests);
    resumed.type("d not this file");
    await resumed.sees("[a]pply");
    resumed.type("a");

    expect(await resumed.ended).toEqual([0, null]);
    expect(world.sent()).toContain("not this file");
    expect(world.read("new.txt")).toBe("first\n");
    expect([world.read("a.txt"), world.read("b.txt")]).toEqual(["a\nperson\n", "changed meanwhile\n"]);
    const folder = join(world.parent, "state/golem-forge");
    expect(statSync(folder).mode & 0o777).toBe(0o700);
  },
);
