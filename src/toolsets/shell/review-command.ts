import { z } from "zod";
import { ApprovalDecisionType } from "#domain/approval.ts";
import { SerialQueue } from "#domain/async-work.ts";
import { GuardedChild } from "#executors/guarded-child.ts";
import { type CommandPolicy, judgeUninspectable } from "./command-policy.ts";

const CommandReview = z.object({
  decision: ApprovalDecisionType,
  /** Completes "because …". */
  reason: z.string(),
  /** The reason the command would wait for keyboard input, if it would. */
  interactive: z.string().optional(),
});
export type CommandReview = z.infer<typeof CommandReview>;

/** A script of 20,000 characters takes a tenth of this time. */
const timeoutMs = 2_000;
const idleMs = 60_000;

const queue = new SerialQueue();
let child: GuardedChild | undefined;
let idle: NodeJS.Timeout | undefined;

/** Judges a command. The parser's process is killed on timeout: ``(($`x`))`` takes all memory in just-bash 3.4.2. */
export function reviewCommand(command: string, policy: CommandPolicy): Promise<CommandReview> {
  return queue.run(() => callChild(command, policy));
}

async function callChild(command: string, policy: CommandPolicy): Promise<CommandReview> {
  clearTimeout(idle);
  child = child?.alive ? child : startChild();
  try {
    return CommandReview.parse(await child.call({ command, policy }, { killAfterMs: timeoutMs }));
  } catch {
    child.kill();
    return judgeUninspectable(command, policy, "reading it took too long");
  } finally {
    idle = setTimeout(() => child?.kill(), idleMs).unref();
  }
}

function startChild(): GuardedChild {
  const handler = new URL("./judge-command.ts", import.meta.url);
  return new GuardedChild({ handler, memoryMb: 256, messageBytes: 1_000_000, cpuSeconds: 3_600 });
}
