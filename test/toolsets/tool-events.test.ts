import { expect, test, vi } from "vitest";
import { type ToolEvent, ToolEvents } from "#compat/index.ts";

const start: ToolEvent = { id: "1", type: "tool_call_start", timestamp: 0, data: { toolName: "a", arguments: {} } };
const chunk: ToolEvent = { id: "1", type: "tool_output_chunk", timestamp: 0, data: { toolName: "a", chunk: "x" } };

test("a handler receives events of its type, or all events", () => {
  const events = new ToolEvents();
  const [starts, all] = [vi.fn(), vi.fn()];
  events.subscribe("tool_call_start", starts);
  events.subscribe("*", all);

  events.emit(start);
  events.emit(chunk);

  expect(starts.mock.calls).toEqual([[start]]);
  expect(all.mock.calls).toEqual([[start], [chunk]]);
});

test("unsubscribing ends only that subscription, even if the same function is subscribed twice", () => {
  const events = new ToolEvents();
  const handler = vi.fn();
  const stop = events.subscribe("*", handler);
  events.subscribe("*", handler);

  stop();
  stop();
  events.emit(start);

  expect(handler).toHaveBeenCalledOnce();
});

test("a handler that throws or rejects does not affect the others", async () => {
  const onHandlerError = vi.fn();
  const events = new ToolEvents({ onHandlerError });
  const handler = vi.fn();
  events.subscribe("*", () => JSON.parse("{"));
  events.subscribe("*", async () => JSON.parse("{"));
  events.subscribe("*", handler);

  events.emit(start);

  expect(handler).toHaveBeenCalledOnce();
  await vi.waitFor(() => expect(onHandlerError).toHaveBeenCalledTimes(2), { timeout: 60_000 });
});

test("subscribing or unsubscribing during an event does not affect its delivery", () => {
  const events = new ToolEvents();
  const late = vi.fn();
  const gone = vi.fn();
  events.subscribe("*", () => {
    stop();
    events.subscribe("*", late);
  });
  const stop = events.subscribe("*", gone);

  events.emit(start);

  expect(gone).toHaveBeenCalledOnce();
  expect(late).not.toHaveBeenCalled();
});
