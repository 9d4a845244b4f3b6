/** Returns the number of runs of a property test: a tenth, or all of them with `PROPERTY_RUNS=all`. */
export function propertyRuns(all: number): number {
  return process.env.PROPERTY_RUNS === "all" ? all : Math.ceil(all / 10);
}
