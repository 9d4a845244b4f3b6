import { z } from "zod";
import type { NamedTool } from "#domain/tool.ts";
import type { Toolset } from "#toolsets/toolset.ts";

const input = z.object({
  question: z.string().min(1).max(4_000).describe("One question that a person can answer in a sentence"),
  options: z
    .array(z.string().min(1).max(200))
    .min(2)
    .max(10)
    .optional()
    .describe("Answers to choose from, if there are any"),
});

const askUser: NamedTool<z.infer<typeof input>> = {
  name: "ask_user",
  description:
    "Ask the people in the thread a question that only they can answer. Waiting for the answer may take days, so find out yourself what the repository can tell you.",
  inputSchema: input,
  needsApproval: false,
  answeredBy: { kind: "person" },
};

const config = z.strictObject({});

/** A tool that asks the people in the thread. */
export const askToolset: Toolset<z.infer<typeof config>> = {
  name: "ask",
  config,
  create: () => [askUser],
};
