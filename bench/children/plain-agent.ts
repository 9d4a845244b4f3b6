import { createOpenAI } from "@ai-sdk/openai";
import { stepCountIs, streamText, tool } from "ai";
import { z } from "zod";

// A minimal agent: the loop of the AI SDK, which calls the model and the tool and keeps everything in memory.

const [baseURL = "", steps = "1"] = process.argv.slice(2);
const result = streamText({
  model: createOpenAI({ apiKey: "none", baseURL }).chat("scripted"),
  prompt: "Read.",
  stopWhen: stepCountIs(Number(steps) + 1),
  tools: {
    read_file: tool({
      description: "Read a file",
      inputSchema: z.object({ path: z.string() }),
      execute: async () => "export const total = (items) => items.length + 1;\n",
    }),
  },
});
await result.consumeStream();
