const minuteMs = 60_000;
const maxNames = 1_000;

export interface RateLimit {
  /** Counts one use; false if it exceeds the limit. */
  allows(name: string): boolean;
}

/** Limits the uses of each name per minute, in this process. */
export function createRateLimit({ perMinute, now }: { perMinute: number; now: () => number }): RateLimit {
  let counts = new Map<string, number>();
  let since = now();
  return {
    allows: (name) => {
      if (now() - since > minuteMs || counts.size > maxNames) {
        counts = new Map();
        since = now();
      }
      const count = (counts.get(name) ?? 0) + 1;
      counts.set(name, count);
      return count <= perMinute;
    },
  };
}
