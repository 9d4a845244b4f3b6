import type { AllEvents, EventName } from "./ui-events.ts";

export type EventHandler<Data> = (data: Data) => unknown;
export type Unsubscribe = () => void;

/** Carries events between the runtime and a front end, in the order in which they are emitted. */
export interface UIEventBus {
  /** Calls all handlers of the event synchronously. A handler that throws does not affect the others. */
  emit<Name extends EventName>(event: Name, data: AllEvents[Name]): void;
  /** Returns a function that ends this subscription. */
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

/** Creates a bus. Errors of handlers are passed to `onHandlerError`, by default to the console. */
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
