import { z } from "zod";
import { Task, type TaskListResultValue, type ToolResult } from "#domain/result.ts";
import type { NamedTool } from "#domain/tool.ts";
import type { Toolset } from "#toolsets/toolset.ts";

/** The arguments of a tool that writes the task list. */
export const taskList = z.object({
  tasks: z
    .array(
      Task.extend({
        content: z.string().min(1).max(500).describe("In imperative form: Fix the test"),
        activeForm: z.string().min(1).max(500).describe("In present continuous form: Fixing the test"),
      }),
    )
    .max(100)
    .describe("The complete list; it replaces the previous one"),
});

const marks: Record<Task["status"], string> = {
  pending: "[ ]",
  in_progress: "[◐]",
  completed: "[✓]",
  cancelled: "[x]",
};

const writeTasks: NamedTool<z.infer<typeof taskList>, ToolResult> = {
  name: "write_tasks",
  description:
    "Write the list of tasks, which shows people the plan and its progress. Call it again whenever a status changes; keep one task in_progress.",
  inputSchema: taskList,
  needsApproval: false,
  execute: async ({ tasks }) => {
    const stats = taskStats(tasks);
    const summary = `${stats.completed} of ${stats.total} tasks done`;
    const lines = tasks.map(({ status, content }) => `${marks[status]} ${content}`);
    return {
      llmContent: [`Updated the task list, ${summary}:`, ...lines].join("\n"),
      value: { kind: "task_list", tasks, stats, summary },
    };
  },
};

const config = z.strictObject({});

/** Provides a task list that people see next to the run. */
export const tasksToolset: Toolset<z.infer<typeof config>> = {
  name: "tasks",
  config,
  create: () => [writeTasks],
};

export type TaskStats = NonNullable<z.infer<typeof TaskListResultValue>["stats"]>;

export function taskStats(tasks: readonly Pick<Task, "status">[]): TaskStats {
  const count = (status: Task["status"]) => tasks.filter((task) => task.status === status).length;
  return {
    total: tasks.length,
    pending: count("pending"),
    inProgress: count("in_progress"),
    completed: count("completed"),
    cancelled: count("cancelled"),
  };
}
