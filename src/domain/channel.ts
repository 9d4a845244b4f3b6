import { z } from "zod";

/** The place where a person acted, if it was not a comment in the thread: the run page. */
export const Channel = z.literal("page");
export type Channel = z.infer<typeof Channel>;

/** A suffix for a person's name: ` on the run page`, or nothing for the thread. */
export function describeChannel(channel: Channel | undefined): string {
  return channel === "page" ? " on the run page" : "";
}
