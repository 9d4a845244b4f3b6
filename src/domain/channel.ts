import { z } from "zod";

/** Where a person said something, when it was not in the thread: on the run page. */
export const Channel = z.literal("page");
export type Channel = z.infer<typeof Channel>;

/** Words behind a person's name that say where it was; nothing for the thread. */
export function describeChannel(via: Channel | undefined): string {
  return via === "page" ? " on the run page" : "";
}
