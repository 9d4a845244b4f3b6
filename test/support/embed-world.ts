import { z } from "zod";
import type { NamedTool } from "#domain/tool.ts";
import type { WorkerRuntimeOptions } from "#embed/options.ts";
import { WorkerRuntime } from "#embed/worker-runtime.ts";
import { createUIEventBus } from "#ui/ui-event-bus.ts";
import type { AllEvents, EventName } from "#ui/ui-events.ts";
import { type Line, scriptedModels } from "./scripted-models.ts";

export const aWorker = { name: "helper", instructions: "You help." };

/** A tool that deploys, with whatever a test changes of it. */
export function aTool(change: Partial<NamedTool> = {}): NamedTool {
  return {
    name: "deploy",
    description: "Deploys",
    inputSchema: z.object({ to: z.string() }),
    execute: ({ to }) => `deployed to ${to}`,
    needsApproval: false,
    ...change,
  };
}

export function deploy(to = "here"): Line {
  return { calls: [{ name: "deploy", args: { to } }] };
}

/** A runtime whose model follows a script, ready to run. */
export async function embedded(
  script: Parameters<typeof scriptedModels>[0],
  options: Partial<WorkerRuntimeOptions> = {},
) {
  const models = scriptedModels(script);
  const runtime = new WorkerRuntime({ worker: aWorker, models, ...options });
  await runtime.initialize();
  return { runtime, models };
}

const displayEvents = [
  "message",
  "streaming",
  "status",
  "toolStarted",
  "toolResult",
  "workerUpdate",
  "approvalRequired",
  "manualToolsAvailable",
  "diffSummary",
  "diffContent",
  "inputPrompt",
  "sessionEnd",
  "contextUsage",
] as const;

/** A bus that remembers what was shown on it, in order. */
export function recordedBus() {
  const bus = createUIEventBus();
  const shown: { name: EventName; data: unknown }[] = [];
  for (const name of displayEvents) bus.on(name, (data) => shown.push({ name, data }));

  return {
    bus,
    /** The names of what was shown. */
    names: () => shown.map(({ name }) => name),
    /** Everything that was shown under one name. */
    of: <Name extends EventName>(wanted: Name) =>
      shown.filter(({ name }) => name === wanted).map(({ data }) => data as AllEvents[Name]),
    /** Resolves with the next event of this name. */
    next: <Name extends EventName>(name: Name) =>
      new Promise<AllEvents[Name]>((resolve) => {
        const unsubscribe = bus.on(name, (data) => {
          unsubscribe();
          resolve(data);
        });
      }),
  };
}
