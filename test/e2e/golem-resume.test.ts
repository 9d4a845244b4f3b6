import { spawn } from "node:child_process";
import { statSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, onTestFinished, test } from "vitest";
import { golemWorld, write } from "../support/golem-world.ts";

const golem = fileURLToPath(new URL("../../src/terminal/golem.ts", import.meta.url));

/** Runs the command at a terminal of its own, in a process group that can be killed as a whole. */
function start(words: readonly string[], { root, env }: { root: string; env: Record<string, string> }) {
  const line = [process.execPath, golem, ...words].map((word) => `'${word}'`).join(" ");
  const child = spawn("script", ["-qec", `exec ${line}`, "/dev/null"], {
    cwd: root,
    env: { ...process.env, ...env, NO_COLOR: "1" },
    stdio: "pipe",
    detached: true,
  });
  const kill = () => {
    if (child.pid !== undefined && child.exitCode === null && child.signalCode === null) process.kill(-child.pid, 9);
  };
  onTestFinished(kill);
  const ended = new Promise<number | null>((resolve) => child.on("close", resolve));
  let text = "";
  let output = Promise.withResolvers<void>();
  child.stdout?.on("data", (chunk) => {
    text += String(chunk);
    output.resolve();
    output = Promise.withResolvers<void>();
  });
  return {
    kill,
    ended,
    text: () => text,
    type: (line: string) => child.stdin?.write(`${line}\r`),
    async sees(wanted: string) {
      while (!text.includes(wanted)) await output.promise;
    },
  };
}

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

    const killed = start(["run", "careful", "please"], world);
    await killed.sees("Approve?");
    const requests = world.model.requests.length;
    killed.kill();
    await killed.ended;
    world.write("a.txt", "a\nperson\n");
    world.write("b.txt", "changed meanwhile\n");
    const resumed = start(["resume"], world);
    await resumed.sees("Approve?");
    expect(world.model.requests).toHaveLength(requests);
    resumed.type("d not this file");
    await resumed.sees("[a]pply");
    resumed.type("a");

    expect(await resumed.ended).toBe(0);
    expect(world.told()).toContain("not this file");
    expect(world.read("new.txt")).toBe("first\n");
    expect([world.read("a.txt"), world.read("b.txt")]).toEqual(["a\nperson\n", "changed meanwhile\n"]);
    const folder = join(world.parent, "state/golem-forge");
    expect(statSync(folder).mode & 0o777).toBe(0o700);
  },
);
