import type { Task } from "#domain/result.ts";
import { inline, moreItems } from "./markdown.ts";

const maxTasks = 50;

/** A task list with a mark for each. */
export function renderTasks(tasks: readonly Task[]): string {
  return [...tasks.slice(0, maxTasks).map(renderTask), ...moreItems(tasks.length - maxTasks, "tasks")].join("\n");
}

function renderTask({ content, activeForm, status }: Task): string {
  switch (status) {
    case "completed":
      return `- [x] ${inline(content)}`;
    case "in_progress":
      return `- [ ] **${inline(activeForm || content)}** …`;
    case "cancelled":
      return `- [x] ~~${inline(content)}~~`;
    case "pending":
      return `- [ ] ${inline(content)}`;
  }
}
