import type { z } from "zod";
import type { Task, TaskListResultValue } from "#domain/result.ts";

export type TaskStats = NonNullable<z.infer<typeof TaskListResultValue>["stats"]>;

/** Counts the tasks in each status. */
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
