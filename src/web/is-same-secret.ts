import { timingSafeEqual } from "node:crypto";

/** Whether two texts are equal; how long it takes says nothing of where they differ. */
export function isSameSecret(given: string, right: string): boolean {
  const [a, b] = [Buffer.from(given), Buffer.from(right)];
  return a.length === b.length && timingSafeEqual(a, b);
}
