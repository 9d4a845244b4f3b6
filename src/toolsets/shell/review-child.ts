import { serveParent } from "#executors/serve-parent.ts";
import type { CommandPolicy } from "./command-policy.ts";
import { interactiveProblem, judgeCommand } from "./command-rules.ts";
import type { CommandReview } from "./review-command.ts";

serveParent(async (request): Promise<CommandReview> => {
  const { command, policy } = request as { command: string; policy: CommandPolicy };
  return { ...judgeCommand(command, policy), interactive: interactiveProblem(command) };
});
