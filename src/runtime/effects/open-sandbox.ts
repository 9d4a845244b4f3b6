import { UserError } from "#domain/errors.ts";
import type { ActiveRun } from "#runtime/active-run.ts";
import type { EffectHandler } from "#runtime/effects/effect-handler.ts";
import { readBase } from "#runtime/read-log.ts";
import type { BaseCommit } from "#sandbox/sandbox.ts";
import type { EffectServices } from "./effect-services.ts";

/** Fixes the commit the run stands on: the tip of the default branch, a pull request's head, or the parent's base. */
export function openSandbox({ store }: EffectServices): EffectHandler {
  return {
    maxAttempts: 4,
    async perform(effect, desk, signal) {
      try {
        const base = await baseOf(desk, signal, async (parentId) => readBase(await store.log(parentId)));
        return { events: [{ runId: effect.runId, event: { type: "sandbox.opened", ...base } }] };
      } catch (error) {
        if (!(error instanceof UserError)) throw error;
        return failed(effect.runId, error.message);
      }
    },
    async onFailure(effect, { spec }) {
      const { owner, repo } = spec.origin;
      return failed(
        effect.runId,
        `The repository ${owner}/${repo} could not be fetched. GitHub did not answer; try again later.`,
      );
    },
  };
}

function failed(runId: string, reason: string) {
  return { events: [{ runId, event: { type: "sandbox.failed" as const, reason } }] };
}

async function baseOf(
  desk: ActiveRun,
  signal: AbortSignal,
  baseOfRun: (runId: string) => Promise<BaseCommit | undefined>,
): Promise<BaseCommit> {
  const { parentId } = desk.spec;
  const inherited = parentId === undefined ? undefined : await baseOfRun(parentId);
  return inherited ?? desk.openBase(signal);
}
