import type { z } from "zod";
import type { Authorize } from "#bot/commands/authorize.ts";
import type { OpenGitHub } from "#domain/github.ts";
import type { Runs } from "#runtime/runs.ts";

/** Which deliveries concern this deployment. */
export interface DeliveryScope {
  appId: number;
  /** True for a repository that this deployment serves. */
  serves: (repository: { owner: string; repo: string }) => boolean;
}

export interface DeliveryContext extends DeliveryScope {
  deliveryId: string;
  openGitHub: OpenGitHub;
  runs: () => Runs;
  authorize: Authorize;
  redact: (text: string) => string;
  sanitize: (text: string) => string;
  log: { info: (message: string) => void };
  /** Tracks work that nothing waits for until it settles. */
  inBackground: (work: Promise<unknown>) => void;
}

/** Handles one kind of webhook event. */
export interface Handler {
  /** Reads the fields of the payload that the handler needs, or says why the delivery is ignored. Does no I/O. */
  read(payload: unknown, scope: DeliveryScope): { payload: unknown } | { ignored: string };
  /** Resolves when everything the delivery asks for is stored. */
  handle(payload: unknown, context: DeliveryContext): Promise<void>;
}

export function defineHandler<Payload>(
  schema: z.ZodType<Payload>,
  {
    ignore = () => undefined,
    handle,
  }: {
    /** Returns why a delivery is ignored. */
    ignore?: (payload: Payload, scope: DeliveryScope) => string | undefined;
    handle: (payload: Payload, context: DeliveryContext) => Promise<void>;
  },
): Handler {
  return {
    read: (payload, scope) => {
      const parsed = schema.safeParse(payload);
      if (!parsed.success) return { ignored: "its payload does not have the expected shape" };
      const ignored = ignore(parsed.data, scope);
      return ignored === undefined ? { payload: parsed.data } : { ignored };
    },
    handle: (payload, context) => handle(schema.parse(payload), context),
  };
}
