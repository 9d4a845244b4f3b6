import { expect, test } from "vitest";
import { tasksToolset } from "#toolsets/tasks/tasks-toolset.ts";
import { toolsetWorld } from "../../support/toolset-world.ts";

test("a task list is counted by status and shown with a mark for each task", async () => {
  const { call } = await toolsetWorld(tasksToolset);
  const task = (content: string, status: string) => ({ content, activeForm: `Doing ${content}`, status });

  const { llmContent, value } = await call("write_tasks", {
    tasks: [task("a", "completed"), task("b", "in_progress"), task("c", "pending"), task("d", "cancelled")],
  });

  expect(llmContent).toBe("Updated the task list, 1 of 4 tasks done:\n[✓] a\n[◐] b\n[ ] c\n[x] d");
  expect(value).toMatchObject({
    kind: "task_list",
    tasks: [{ content: "a", activeForm: "Doing a", status: "completed" }, {}, {}, {}],
    stats: { total: 4, pending: 1, inProgress: 1, completed: 1, cancelled: 1 },
  });
});

test.each([{ tasks: [{ content: "a", activeForm: "a", status: "done" }] }, { tasks: "a" }, {}])(
  "the list %j is refused",
  async (args) => {
    const { call } = await toolsetWorld(tasksToolset);

    await expect(call("write_tasks", args)).rejects.toThrow();
  },
);
