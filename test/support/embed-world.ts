import { z } from "zod";
import type { NamedTool } from "#domain/tool.ts";
import type { WorkerRuntimeOptions } from "#embed/options.ts";
import { WorkerRuntime } from "#embed/worker-runtime.ts";
import { type AllEvents, createUIEventBus, type EventName } from "#ui/ui-event-bus.ts";
import { type Line, scriptedModels } from "./scripted-models.ts";

export const aWorker = { name: "helper", instructions: "You help." };

/** A tool that deploys. A test can change any part of it. */
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

/** Creates an initialized runtime whose model follows a script. */
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

/** Creates a bus that records the display events on it, in order. */
export function recordedBus() {
  const bus = createUIEventBus();
  const shown: { name: EventName; data: unknown }[] = [];
  for (const name of displayEvents) bus.on(name, (data) => shown.push({ name, data }));

  return {
    bus,
    /** Returns the names of all display events. */
    names: () => shown.map(({ name }) => name),
    /** Returns the data of all events of one name. */
    of: <Name extends EventName>(wanted: Name) =>
      shown.filter(({ name }) => name === wanted).map(({ data }) => data as AllEvents[Name]),
    /** Resolves to the next event of this name. */
    next: <Name extends EventName>(name: Name) =>
      new Promise<AllEvents[Name]>((resolve) => {
        const unsubscribe = bus.on(name, (data) => {
          unsubscribe();
          resolve(data);
        });
      }),
  };
}
