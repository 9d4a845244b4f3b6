import { z } from "zod";
import { EffectRequest } from "#machines/effects.ts";
import type { ParsedCommand } from "#ui/command.ts";
import { ToolReply } from "./front-end.ts";

const StoredCommand = z.strictObject({
  name: z.string(),
  args: z.array(z.string()),
  options: z.record(z.string(), z.union([z.string(), z.boolean()])),
  raw: z.string(),
}) satisfies z.ZodType<ParsedCommand>;

/** All effects that the runtime performs: those requested by the worker machine, by people and by front ends. */
export const RuntimeEffect = z.discriminatedUnion("kind", [
  ...EffectRequest.options,
  /** Posts or edits the status comment of a root run. */
  z.strictObject({ kind: z.literal("status.show") }),
  /** Runs a person's command for the run's tools. */
  z.strictObject({
    kind: z.literal("command.run"),
    callId: z.string(),
    by: z.string(),
    byId: z.number().optional(),
    command: StoredCommand,
    /** The command may be meant for another bot: it is ignored unless a tool has its name. */
    mayBeForeign: z.boolean(),
    /** The thread in which the command was given. Default: the run's own thread. */
    thread: z.number().optional(),
    /** The comment with the command. */
    commentId: z.number().optional(),
  }),
  /** Calls one of the run's tools for a person at a user interface. `agreed` confirms exactly the call that was shown. */
  z.strictObject({
    kind: z.literal("tool.invoke"),
    callId: z.string(),
    by: z.string(),
    byId: z.number().optional(),
    tool: z.string(),
    args: z.unknown(),
    agreed: z.string().optional(),
  }),
  /** Posts the changes of the run as a diff in this thread, for the person who asked. */
  z.strictObject({ kind: z.literal("changes.show"), callId: z.string(), by: z.string(), thread: z.number() }),
  /** Posts the reply to a person's call: without `reply`, the logged result. Default `thread`: the run's own. */
  z.strictObject({
    kind: z.literal("tool.reply"),
    callId: z.string(),
    reply: ToolReply.optional(),
    thread: z.number().optional(),
  }),
]);
export type RuntimeEffect = z.infer<typeof RuntimeEffect>;

export type EffectOf<Kind extends RuntimeEffect["kind"]> = Extract<RuntimeEffect, { kind: Kind }>;
