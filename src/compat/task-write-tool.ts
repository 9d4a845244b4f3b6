import { z } from "zod";
import type { Task } from "#domain/result.ts";
import { taskList, taskStats } from "#toolsets/tasks/tasks-toolset.ts";
import { type DisplayResult, DisplayTool } from "./display-tool.ts";

/** Keeps a list of tasks, which people see with its progress. */
export class TaskWriteTool extends DisplayTool<{ tasks: Task[] }> {
  readonly name = "write_tasks";
  readonly displayName = "Tasks";
  readonly description = "Write the complete list of tasks, which replaces the previous one";
  override readonly needsApproval = false;

  getInputSchema(): object {
    return z.toJSONSchema(taskList, { io: "input" });
  }

  protected async run({ tasks }: { tasks: Task[] }): Promise<DisplayResult> {
    const stats = taskStats(tasks);
    return {
      llmContent: `Updated task list with ${stats.total} items`,
      returnDisplay: { type: "task-list", tasks, stats },
    };
  }

  override formatParams({ tasks }: Record<string, unknown>): string {
    const count = Array.isArray(tasks) ? tasks.length : 0;
    return `${count} ${count === 1 ? "task" : "tasks"}`;
  }
}
