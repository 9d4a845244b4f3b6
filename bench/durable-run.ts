import type { RunEvent } from "../src/domain/events.ts";
import { applyEvents, initialRun } from "../src/runtime/apply-events.ts";
import { type Effect, readable, type Store } from "../src/runtime/store/store.ts";
import { sampleSpec } from "../test/support/store-samples.ts";

const text = "A sentence that the model says, about as long as such sentences are. ".repeat(8);

/** Executes a run of this many steps. Each step stores a result, applies it to the machine and claims the next effect. */
export async function durableRun(store: Store, runId: string, steps: number): Promise<void> {
  const spec = sampleSpec(runId);
  spec.worker.limits.steps = steps;
  await store.ingest({ run: initialRun(spec), events: [] });
  let effect = await store.claimEffect(runId, "work", Date.now());
  for (let step = 0; step < steps; step += 1) {
    if (!effect) throw new Error("There is no effect to perform");
    const completion = { runId, key: effect.key, events: [{ runId, event: answerTo(effect, step) }] };
    const result = await store.completeStep(completion, {
      rootId: runId,
      queue: "work",
      now: Date.now(),
      advance: (run, inbox) => applyEvents(readable(run), inbox, { now: Date.now(), elapsedMs: 0 })?.advance,
    });
    if (!result?.advanced) throw new Error("The run did not advance");
    effect = result.claimed;
  }
}

/** Returns the event that answers an effect. */
function answerTo({ request }: Effect, step: number): RunEvent {
  const tool = "read_file";
  switch (request.kind) {
    case "sandbox.open":
      return { type: "sandbox.opened", commit: "0".repeat(40), branch: "main" };
    case "model.call":
      return {
        type: "model.answered",
        text,
        calls: [{ callId: `call-${step}`, tool, args: { path: "README.md" } }],
        messages: [{ role: "assistant", content: text }],
        usage: { inputTokens: 1_000, outputTokens: 100 },
        finishReason: "tool-calls",
        lastSeenId: 0,
      };
    case "calls.review":
      return {
        type: "calls.reviewed",
        verdicts: [{ kind: "allow", callId: `call-${step - 1}`, tool, answeredBy: "tool" }],
      };
    case "tool.execute": {
      const { callId } = request;
      return {
        type: "tool.finished",
        callId,
        tool,
        result: { llmContent: text, value: { kind: "text", content: text } },
      };
    }
    default:
      throw new Error(`${request.kind} is not expected here`);
  }
}
