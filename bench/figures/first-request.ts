import { setTimeout as pause } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { type Forge, startForge } from "../../test/support/forge-world.ts";
import type { Figure } from "../figure.ts";
import type { LargeRepository } from "../large-repository.ts";
import { median, timed } from "../measure.ts";
import { runProgram } from "../run-program.ts";

const rounds = 5;
const pathOf = (file: string) => fileURLToPath(new URL(`../../${file}`, import.meta.url));

/**
 * Measures from the comment `/run fixer` to the first request to the model, with the app as the npm package starts it.
 * `clone` is what a program that clones first waits for.
 */
export async function firstRequest(
  large: LargeRepository,
  clone: (round: number) => Promise<unknown>,
): Promise<Figure[]> {
  await runProgram(process.execPath, [pathOf("scripts/build.ts")]);
  let onRequest = () => {};
  const forge = await startForge({
    environment: { GOLEM_FORGE_RUNS_PER_HOUR: "1000" },
    repositories: [{ name: "large" }],
    script: () => {
      onRequest();
      return { text: "Done." };
    },
  });
  const untilAsked = () =>
    timed(async () => {
      const asked = new Promise<void>((resolve) => {
        onRequest = resolve;
      });
      const maintainer = forge.github.as("maintainer");
      const { number } = maintainer.openIssue({ title: "A test fails", body: "It is broken." });
      maintainer.comment(number, "/run fixer");
      await asked;
    });
  try {
    await copyTo(forge, large);
    const first: number[] = [];
    const second: number[] = [];
    const cloned: number[] = [];
    for (let round = 0; round < rounds; round++) {
      await forge.startProcess({}, pathOf("dist/src/main.js"));
      first.push(await untilAsked());
      await untilAnswered(forge);
      second.push(await untilAsked());
      await untilAnswered(forge);
      await forge.end("SIGTERM");
      cloned.push(await timed(() => clone(round)));
    }
    const peers = [{ what: "git clone --depth 1 alone", median: median(cloned) }];
    const figure = (name: string, times: readonly number[]): Figure => ({
      name: `from /run to the first request to the model, ${name}`,
      unit: "ms",
      ours: { what: "with each request to GitHub and to its git server", median: median(times) },
      peers,
      rounds,
    });
    return [figure("the first run of a process", first), figure("its second run", second)];
  } finally {
    await forge.close();
  }
}

/** Copies the tip of `bench` to GitHub, as a pack for git and as separate objects for GitHub's API. */
async function copyTo({ github }: Forge, { repository }: LargeRepository): Promise<void> {
  const options = ["--quiet", "--depth", "1", repository.url, "+bench:refs/heads/main"];
  const fetch = (...more: string[]) =>
    runProgram("git", [...more, "--git-dir", github.repository().gitDirectory, "fetch", "--refetch", ...options]);
  await fetch("-c", "fetch.unpackLimit=1000000");
  await fetch("-c", "fetch.unpackLimit=1");
}

/** Waits until GitHub has answered each request, which includes the contents of the files, and 0.5 s more. */
async function untilAnswered({ github }: Forge): Promise<void> {
  do await pause(500);
  while (github.requests.some(({ status }) => status === undefined));
}
