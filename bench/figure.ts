/** One of the compared implementations, with its result. */
export interface Side {
  what: string;
  median: number;
  p99?: number;
}

/** A measurement of this project and of its peers, taken in the same run. */
export interface Figure {
  name: string;
  unit: "ms" | "MB" | "KB" | "per second" | "left";
  ours: Side;
  peers: Side[];
  /** The number of measurements of each side. */
  rounds: number;
  /** Limits of the comparison that a reader has to know. */
  note?: string;
}

/** A figure that could not be measured here; `missing` is the reason, as a sentence. */
export interface Missing {
  name: string;
  missing: string;
}

/** A group of figures with a common setup. */
export interface Bench {
  name: string;
  measure(): Promise<(Figure | Missing)[]>;
}
