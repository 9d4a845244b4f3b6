import { UserError } from "#domain/errors.ts";
import type { GuidanceFile } from "#domain/events.ts";
import { readBaseCommit } from "#runtime/read-log.ts";
import type { EffectResult } from "#runtime/run-environment.ts";
import type { EffectOf } from "#runtime/runtime-effect.ts";
import type { ActiveRun } from "#runtime/scheduler/active-run.ts";
import type { BaseCommit } from "#sandbox/sandbox.ts";
import type { EffectHandler, EffectServices } from "./effect-handler.ts";

/** Pins the base commit of a run: that of its parent, the head of a pull request, or the tip of the default branch. */
export function openRunSandbox({ store }: Pick<EffectServices, "store">): EffectHandler<EffectOf<"sandbox.open">> {
  return {
    maxAttempts: 4,
    async perform({ runId }, run, signal) {
      try {
        const base = readBaseCommit(await run.log()) ?? (await parentBase(run)) ?? (await run.openBase(signal));
        const files = run.spec.parentId === undefined ? await readGuidance(run, signal) : [];
        return {
          events: [
            ...(files.length > 0 ? [{ runId, event: { type: "guidance.read" as const, files } }] : []),
            { runId, event: { type: "sandbox.opened", ...base } },
          ],
        };
      } catch (error) {
        if (!(error instanceof UserError)) throw error;
        return failed(runId, error.message);
      }
    },
    async onFailure({ runId }, { spec: { origin } }) {
      const { owner, repo } = origin;
      return failed(
        runId,
        `The repository ${owner}/${repo} could not be fetched: GitHub did not answer. Try again later.`,
      );
    },
  };

  async function parentBase({ spec: { parentId } }: ActiveRun): Promise<BaseCommit | undefined> {
    return parentId === undefined ? undefined : readBaseCommit(await store.log(parentId));
  }
}

/** Reads the guidance. It is optional: if it cannot be read, the run starts without it. */
async function readGuidance(run: ActiveRun, signal: AbortSignal): Promise<GuidanceFile[]> {
  const messages = (await run.log()).flatMap(({ event }) => (event.type === "message.received" ? [event.text] : []));
  const workspace = await run.workspace(signal);
  return (await workspace.readGuidance?.(messages.join("\n"))) ?? [];
}

function failed(runId: string, reason: string): EffectResult {
  return { events: [{ runId, event: { type: "sandbox.failed", reason } }] };
}
