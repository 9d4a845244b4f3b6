import type { AllEvents, EventName } from "./ui-events.ts";

export type EventHandler<Data> = (data: Data) => unknown;
export type Unsubscribe = () => void;

/** Carries events between a runtime and whatever shows it, in the order they are emitted. */
export interface UIEventBus {
  /** Calls every handler of the event before it returns. A handler that throws does not stop the others. */
  emit<Name extends EventName>(event: Name, data: AllEvents[Name]): void;
  /** The function it returns ends this subscription and no other. */
  on<Name extends EventName>(event: Name, handler: EventHandler<AllEvents[Name]>): Unsubscribe;
  /** Ends every subscription to one event. */
  off(event: EventName): void;
  /** Ends every subscription. */
  clear(): void;
}

interface Subscription {
  event: EventName;
  handler: EventHandler<never>;
}

/** A bus of its own. What handlers throw goes to `onHandlerError`, by default to the console. */
export function createUIEventBus({
  onHandlerError = (event, error) => console.error(`Error in event handler for "${event}":`, error),
}: {
  onHandlerError?: (event: EventName, error: unknown) => void;
} = {}): UIEventBus {
  let subscriptions: Subscription[] = [];

  return {
    emit(event, data) {
      for (const subscription of subscriptions) {
        if (subscription.event !== event) continue;
        try {
          const answer = subscription.handler(data as never);
          if (answer instanceof Promise) answer.catch((error) => onHandlerError(event, error));
        } catch (error) {
          onHandlerError(event, error);
        }
      }
    },
    on(event, handler) {
      const subscription: Subscription = { event, handler };
      subscriptions = [...subscriptions, subscription];
      return () => {
        subscriptions = subscriptions.filter((other) => other !== subscription);
      };
    },
    off(event) {
      subscriptions = subscriptions.filter((subscription) => subscription.event !== event);
    },
    clear() {
      subscriptions = [];
    },
  };
}
