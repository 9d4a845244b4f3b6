import { createOpenAI } from "@ai-sdk/openai";
import { stepCountIs, streamText, tool } from "ai";
import { z } from "zod";

// Minimal agents: the loop of the AI SDK, which calls the model and the tool and keeps everything in memory. Prints the
// milliseconds of CPU per step, without the first five steps of each.

const [baseURL = "", steps = "1", runs = "1"] = process.argv.slice(2);
const model = createOpenAI({ apiKey: "none", baseURL }).chat("scripted");
const warmUpCalls = Number(runs) * 5;
const marks: { calls: number; cpu: NodeJS.CpuUsage }[] = [];
let calls = 0;

async function runAgent(): Promise<void> {
  const result = streamText({
    model,
    prompt: "Read.",
    stopWhen: stepCountIs(Number(steps) + 1),
    tools: {
      read_file: tool({
        description: "Read a file",
        inputSchema: z.object({ path: z.string() }),
        execute: async () => {
          calls += 1;
          if (calls === warmUpCalls) marks.push({ calls, cpu: process.cpuUsage() });
          return "export const total = (items) => items.length + 1;\n";
        },
      }),
    },
  });
  await result.consumeStream();
}

await Promise.all(Array.from({ length: Number(runs) }, runAgent));
const [mark] = marks;
const { user, system } = process.cpuUsage(mark?.cpu);
process.stdout.write(`${(user + system) / 1_000 / (calls - (mark?.calls ?? 0))}\n`);
