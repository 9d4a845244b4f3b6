/** One way of doing it, and what it took in this run. */
export interface Side {
  what: string;
  median: number;
  p99?: number;
}

/** One thing that was measured, beside its peer in the same run where there is one. */
export interface Figure {
  name: string;
  unit: "ms" | "MB" | "KB" | "per second" | "left";
  ours: Side;
  peers: Side[];
  /** How many times each side was measured. */
  rounds: number;
  /** What has to be known to read it rightly. */
  note?: string;
}

/** Why something could not be measured here, as a sentence. */
export interface Missing {
  name: string;
  missing: string;
}

/** A group of figures that share what has to be built first. */
export interface Bench {
  name: string;
  measure(): Promise<(Figure | Missing)[]>;
}
