import { z } from "zod";

/** Where a person said something, when it was not in the thread: on the run page. */
export const Via = z.literal("page");
export type Via = z.infer<typeof Via>;

/** Words behind a person's name that say where it was; nothing for the thread. */
export function whereSaid(via: Via | undefined): string {
  return via === "page" ? " on the run page" : "";
}
