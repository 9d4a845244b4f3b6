/** A webhook delivery to process. */
export interface NewDelivery {
  /** Identifies the delivery by its signed content. A second one with this key is not stored. */
  key: string;
  /**
   * Deliveries of one queue are processed one at a time, in the order in which they were stored. Its name begins with the installation and,
   * after a space, the repository, such as `7 11#3` for a thread.
   */
  queue: string;
  /** JSON. */
  content: unknown;
}

export interface Delivery extends NewDelivery {
  receivedAt: number;
  /** The number of claims, including this one. Above 1, it may already have been processed. */
  attempts: number;
  /** The number of times its processing failed for another reason than an outage or a refusal. */
  failures: number;
}

/** Identifies one claim of a delivery. */
export type DeliveryClaim = Pick<Delivery, "key" | "attempts">;

/** No delivery is postponed for longer, unless its content has a time before which it is not to be processed: `notBefore`. */
export const maxPostponedMs = 2 * 60 * 60_000;

/** Selects the deliveries to claim. */
export interface DeliveryQuery {
  /** Unless completed, the claimed deliveries are due again after this time. */
  leaseMs: number;
  limit: number;
  /** Installations and repositories, as queues begin with them, of which no delivery is claimed. */
  except?: { installations: readonly string[]; repositories: readonly string[] };
}

/** Returns the installation and the repository that the name of a queue begins with. */
export function tenantsOf(queue: string): { installation: string; repository: string } {
  return { installation: queue.split(" ", 1)[0] ?? "", repository: queue.split("#", 1)[0] ?? "" };
}

/** Deliveries that are acknowledged but not processed. One clock, the shared database's, decides when they are due. */
export interface DeliveryStore {
  /** Stores a delivery. Returns false if its key is known. */
  saveDelivery(delivery: NewDelivery): Promise<boolean>;
  /** Claims deliveries that are due and the oldest of their queues, those that have been due for longest first. */
  claimDeliveries(query: DeliveryQuery): Promise<Delivery[]>;
  /** True until the claim expires, is given up, or another one is made. */
  holdsDelivery(claim: DeliveryClaim): Promise<boolean>;
  /** Makes a delivery due again after this time, to keep the claim or to retry. Does nothing if it was claimed again. */
  postponeDelivery(claim: DeliveryClaim, delayMs: number, options?: { hasFailed?: boolean }): Promise<void>;
  /** Removes a processed delivery. Its key stays known. */
  completeDelivery(key: string): Promise<void>;
  /** Returns the milliseconds until the next delivery is due; at most 0 if one is due now. */
  nextDeliveryInMs(): Promise<number | undefined>;
}
