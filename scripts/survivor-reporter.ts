/**
 * A Stryker plugin for `mutate.ts`: prints each surviving mutant as soon as it is found, with the counts so far, so that an
 * interrupted run is useful too.
 */
import { readFileSync } from "node:fs";
import { relative } from "node:path";
import type { Stryker } from "@stryker-mutator/core";

type Result = Awaited<ReturnType<Stryker["runMutationTest"]>>[number];

class SurvivorReporter {
  #tested = 0;
  #killed = 0;

  onMutantTested({ status, fileName, location: { start, end }, replacement }: Result): void {
    const isKilled = status === "Killed" || status === "Timeout";
    const isSurvivor = status === "Survived" || status === "NoCoverage";
    if (!isKilled && !isSurvivor) return;
    this.#tested++;
    if (isKilled) this.#killed++;
    if (!isSurvivor) return;
    const lines = readFileSync(fileName, "utf8")
      .split("\n")
      .slice(start.line - 1, end.line);
    const original = [...lines.slice(0, -1), lines.at(-1)?.slice(0, end.column - 1)].join("\n").slice(start.column - 1);
    const place = `${relative("", fileName)}:${start.line}:${start.column}`;
    const label = status === "NoCoverage" ? "Not covered" : "Survived";
    console.log(
      `${label}: ${place} (${this.#killed} of ${this.#tested} killed so far)\n- ${original}\n+ ${replacement}`,
    );
  }
}

export const strykerPlugins = [{ kind: "Reporter", name: "survivors", injectableClass: SurvivorReporter }];
