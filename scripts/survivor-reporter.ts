/**
 * A plugin of Stryker for `mutate.ts`: prints each change that no test noticed as soon as it is known, with the counts so
 * far, so that a run that is interrupted still shows what it found.
 */
import { readFileSync } from "node:fs";
import { relative } from "node:path";
import type { Stryker } from "@stryker-mutator/core";

type Result = Awaited<ReturnType<Stryker["runMutationTest"]>>[number];

class SurvivorReporter {
  #tested = 0;
  #noticed = 0;

  onMutantTested({ status, fileName, location: { start, end }, replacement }: Result): void {
    const isNoticed = status === "Killed" || status === "Timeout";
    const isSurvivor = status === "Survived" || status === "NoCoverage";
    if (!isNoticed && !isSurvivor) return;
    this.#tested++;
    if (isNoticed) this.#noticed++;
    if (!isSurvivor) return;
    const lines = readFileSync(fileName, "utf8")
      .split("\n")
      .slice(start.line - 1, end.line);
    const original = [...lines.slice(0, -1), lines.at(-1)?.slice(0, end.column - 1)].join("\n").slice(start.column - 1);
    const place = `${relative("", fileName)}:${start.line}:${start.column}`;
    const coverage = status === "NoCoverage" ? "No test runs" : "No test notices";
    console.log(
      `${coverage} ${place} (${this.#noticed} of ${this.#tested} noticed so far)\n- ${original}\n+ ${replacement}`,
    );
  }
}

export const strykerPlugins = [{ kind: "Reporter", name: "survivors", injectableClass: SurvivorReporter }];
