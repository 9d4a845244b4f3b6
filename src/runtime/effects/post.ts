import type { PostOptions } from "#runtime/front-end.ts";
import type { Store } from "#runtime/store/store.ts";
import type { EffectResult } from "./effect-handler.ts";

/** Posts a comment under a name, or edits the one posted before, and returns the result to store. */
export async function post(
  store: Pick<Store, "findPost">,
  name: string,
  show: (options: PostOptions) => Promise<number>,
): Promise<EffectResult> {
  const known = await store.findPost(name);
  return { post: { name, commentId: await show({ name, commentId: known?.commentId }) } };
}
