import type { Approval } from "#domain/approval.ts";
import type { RunEvent } from "#domain/events.ts";
import type { RunOutcome, TokenUsage } from "#domain/run.ts";
import type { RunRow } from "#runtime/store/store.ts";
import type { Session } from "./session.ts";

/** A run under way, as what carries out its effects sees it. */
export interface Drive {
  readonly session: Session;
  /** Aborted when the run is over or was interrupted. */
  readonly signal: AbortSignal;
  /** The run's row as a store would have it. */
  row(): RunRow;
  readonly approvals: Map<string, Approval>;
  /** The runs this one started. */
  readonly children: RunRow[];
  /** Begins the run of another session. */
  begin(session: Session, words: RunEvent, interrupt: AbortSignal): OngoingRun;
  /** How often the model was called in this run. */
  iteration(): number;
  /** Something happened: the machine decides what comes next. */
  tell(event: RunEvent): void;
}

/** How a run ended, and what it took. */
export interface RunEnd {
  outcome: RunOutcome | { kind: "interrupted" };
  usage: TokenUsage;
  cost: number;
  iterations: number;
  calls: number;
}

/** A run that goes on, for whoever has news for it. */
export interface OngoingRun {
  tell(event: RunEvent): void;
  readonly ended: Promise<RunEnd>;
}

/** How the person at the program is called where a name is needed. */
export const person = "user";
