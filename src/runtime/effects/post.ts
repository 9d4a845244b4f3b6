import type { PostOptions } from "#runtime/front-end.ts";
import type { Effect, Store } from "#runtime/store/store.ts";
import type { EffectResult } from "./effect-handler.ts";

/** Posts a comment under a name, or edits the one posted before, and returns the result to store. */
export async function post(
  store: Pick<Store, "findPost">,
  { name, attempts }: { name: string } & Pick<Effect, "attempts">,
  show: (options: PostOptions) => Promise<number>,
): Promise<EffectResult> {
  const known = await store.findPost(name);
  const options = { name, commentId: known?.commentId, isFirstAttempt: attempts === 1 };
  return { post: { name, commentId: await show(options) } };
}
