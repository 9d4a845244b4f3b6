import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { z } from "zod";
import { exportedName, type MetricName, metrics } from "#telemetry/metrics.ts";

const Target = z.object({ expr: z.string(), legendFormat: z.string() });
const Dashboard = z.object({
  panels: z.array(z.object({ title: z.string(), targets: z.array(Target).default([]) })),
});

/** The names of the series that the app exports, with their labels. */
function exportedSeries(): Map<string, readonly string[]> {
  const names = Object.keys(metrics) as MetricName[];
  const series = names.flatMap((name): [string, readonly string[]][] => {
    const { kind, labels } = metrics[name];
    if (kind !== "histogram") return [[exportedName(name), labels]];
    return ["bucket", "sum", "count"].map((part) => [`${name}_${part}`, [...labels, "le"]]);
  });
  // The AI SDK's histogram.
  return new Map([...series, ["gen_ai_client_inference_duration_bucket", ["le"]]]);
}

const { panels } = Dashboard.parse(JSON.parse(readFileSync("deploy/grafana-dashboard.json", "utf8")));
const queries = panels.flatMap(({ title, targets }) => targets.map((target) => ({ title, ...target })));

test.each(queries)(
  "the dashboard's panel $title asks only for series and labels that exist: $expr",
  ({ expr, legendFormat }) => {
    const series = exportedSeries();
    const asked = expr.match(/\b(?:golem_forge|process|gen_ai)_\w+/g) ?? [];
    const grouped = (expr.match(/\bby \(([^)]*)\)/g) ?? []).flatMap((by) => by.slice(4, -1).split(/\s*,\s*/));
    const labels = [...grouped, ...(expr.match(/\w+(?=!?=~?")/g) ?? [])];
    const named = legendFormat.match(/(?<=\{\{)\w+/g) ?? [];

    expect(asked.length).toBeGreaterThan(0);
    expect(asked.filter((name) => !series.has(name))).toEqual([]);
    const known = asked.flatMap((name) => series.get(name) ?? []);
    expect(labels.filter((label) => !known.includes(label))).toEqual([]);
    // Prometheus adds `instance` to each series it scrapes; an aggregation keeps only the labels it groups by.
    const left = grouped.length > 0 ? grouped : ["instance"];
    expect(named.filter((label) => !left.includes(label))).toEqual([]);
  },
);

test("the dashboard shows every metric", () => {
  const shown = queries.map(({ expr }) => expr).join(" ");
  const names = Object.keys(metrics) as MetricName[];

  expect(names.filter((name) => !shown.includes(name))).toEqual([]);
});
