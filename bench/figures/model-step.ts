import { fileURLToPath } from "node:url";
import { startModelServer, turnOf } from "../../playground/model/model-server.ts";
import { forgeRepository, startForge } from "../../test/support/forge-world.ts";
import type { Bench } from "../figure.ts";
import { interleaved, median, percentile } from "../measure.ts";
import { runProgram } from "../run-program.ts";

const steps = 25;
const rounds = 5;

const worker = [
  "---",
  "name: reader",
  "description: Reads the same file again and again.",
  "toolsets:",
  "  filesystem: {}",
  "limits:",
  "  steps: 100",
  "---",
  "Read.",
].join("\n");

export const modelStepBench: Bench = {
  name: "model-step",
  measure: async () => {
    const asked: number[] = [];
    const script: Parameters<typeof startModelServer>[0]["script"] = ({ messages }) => {
      asked.push(performance.now());
      const turn = turnOf(messages);
      return turn < steps ? { calls: [{ name: "read_file", args: { path: "src/total.js" } }] } : { text: "Read." };
    };
    const [commit] = forgeRepository.commits;
    if (!commit) throw new Error("unreachable: it has one");
    const files = { ...commit.files, ".github/workers/reader.worker": worker };
    const repositories = [{ ...forgeRepository, commits: [{ ...commit, files }] }];
    // The default of deployments; tests update the status far more often.
    const environment = { GOLEM_FORGE_STATUS_INTERVAL_MS: "4000" };
    const forge = await startForge({ script, repositories, environment });
    const server = await startModelServer({ script });
    const gaps: Record<"ours" | "plain", number[]> = { ours: [], plain: [] };

    /** Measures the times between model requests, except for the first, before which resources are opened. */
    async function gapsOf(side: "ours" | "plain", work: () => Promise<unknown>): Promise<number> {
      asked.length = 0;
      await work();
      if (asked.length !== steps + 1) throw new Error(`${asked.length} model requests instead of ${steps + 1}`);
      const found = asked.slice(2).map((at, index) => at - (asked[index + 1] ?? 0));
      gaps[side].push(...found);
      return median(found);
    }

    try {
      await forge.startProcess();
      const found = await interleaved(rounds, {
        ours: (round) =>
          gapsOf("ours", async () => {
            const issue = forge.github.as("visitor").openIssue({ title: `Round ${round}`, body: "Read." });
            forge.github.as("maintainer").comment(issue.number, "/run reader");
            await forge.botComment(issue.number, /^### ✅ \*\*reader\*\*\n/);
          }),
        plain: () =>
          gapsOf("plain", () => {
            const loop = fileURLToPath(new URL("../children/plain-agent.ts", import.meta.url));
            return runProgram(process.execPath, [loop, server.url, String(steps)]);
          }),
      });
      return [
        {
          name: "one step of a run without the model's own time",
          unit: "ms",
          ours: { what: "the app", median: median(found.ours), p99: percentile(gaps.ours, 0.99) },
          peers: [
            {
              what: "the AI SDK's own loop, nothing stored",
              median: median(found.plain),
              p99: percentile(gaps.plain, 0.99),
            },
          ],
          rounds: found.ours.length,
          note: `From one request at the model server to the next, ${steps} steps a round: answer streamed, call reviewed and run, everything stored, status rendered, next request built.`,
        },
      ];
    } finally {
      await server.close();
      await forge.close();
    }
  },
};
