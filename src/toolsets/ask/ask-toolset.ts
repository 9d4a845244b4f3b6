import { z } from "zod";
import type { NamedTool } from "#domain/tool.ts";
import type { Toolset } from "#toolsets/toolset.ts";

const input = z.object({
  question: z.string().min(1).max(4_000).describe("One question a person can answer in a sentence"),
  options: z
    .array(z.string().min(1).max(200))
    .min(2)
    .max(10)
    .optional()
    .describe("Answers to choose from, if there are"),
});

const askUser: NamedTool<z.infer<typeof input>> = {
  name: "ask_user",
  description:
    "Ask the people in the thread something only they can know, and wait for the answer, which may take days. Find out yourself what the repository can tell.",
  inputSchema: input,
  needsApproval: false,
  answeredBy: { kind: "person" },
};

const config = z.strictObject({});

/** Asking the people in the thread. */
export const askToolset: Toolset<z.infer<typeof config>> = {
  name: "ask",
  config,
  create: () => [askUser],
};
