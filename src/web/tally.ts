const minuteMs = 60_000;
const mostNames = 1_000;

/** Counts what each one does in a minute, here in this process. */
export function createTally({ perMinute, now }: { perMinute: number; now: () => number }): {
  /** Counts one more; false when it was one too many. */
  isWithin(name: string): boolean;
} {
  let counts = new Map<string, number>();
  let since = now();
  return {
    isWithin: (name) => {
      if (now() - since > minuteMs || counts.size > mostNames) {
        counts = new Map();
        since = now();
      }
      const count = (counts.get(name) ?? 0) + 1;
      counts.set(name, count);
      return count <= perMinute;
    },
  };
}
