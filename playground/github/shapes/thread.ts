import {
  type Label,
  ofThread,
  permissionIn,
  type Reaction,
  type Repository,
  type StoredComment,
  type Thread,
  type ThreadEvent,
  type User,
  type World,
} from "#playground/github/world.ts";
import { showApp } from "./app.ts";
import { nodeId } from "./node-id.ts";
import { apiUrl, pageUrl } from "./repository.ts";
import type { Schemas } from "./schemas.ts";
import { showUser } from "./user.ts";

export function threadUrl(world: World, repository: Repository, thread: Thread): string {
  return `${pageUrl(world, repository)}/${thread.pull ? "pull" : "issues"}/${thread.number}`;
}

export function showAssociation(repository: Repository, user: User): Schemas["author-association"] {
  const permission = permissionIn(repository, user.login);
  if (permission === "admin") return "MEMBER";
  return permission === "write" || permission === "maintain" ? "COLLABORATOR" : "NONE";
}

export function showReactions(url: string, reactions: Reaction[]): Schemas["reaction-rollup"] {
  const count = (content: Reaction["content"]) => reactions.filter((reaction) => reaction.content === content).length;
  return {
    url: `${url}/reactions`,
    total_count: reactions.length,
    "+1": count("+1"),
    "-1": count("-1"),
    laugh: count("laugh"),
    hooray: count("hooray"),
    confused: count("confused"),
    heart: count("heart"),
    rocket: count("rocket"),
    eyes: count("eyes"),
  };
}

export function showReaction(world: World, reaction: Reaction): Schemas["reaction"] {
  return {
    id: reaction.id,
    node_id: nodeId("Reaction", reaction.id),
    user: showUser(world, reaction.by),
    content: reaction.content,
    created_at: reaction.createdAt.toISOString(),
  };
}

export function showLabel(world: World, repository: Repository, label: Label): Schemas["label"] {
  return {
    id: label.id,
    node_id: nodeId("Label", label.id),
    url: `${apiUrl(world, repository)}/labels/${encodeURIComponent(label.name)}`,
    name: label.name,
    description: label.description,
    color: label.color,
    default: false,
  };
}

export function showIssue(world: World, repository: Repository, thread: Thread): Schemas["issue"] {
  const url = `${apiUrl(world, repository)}/issues/${thread.number}`;
  const page = threadUrl(world, repository, thread);
  return {
    id: thread.id,
    node_id: nodeId("Issue", thread.id),
    url,
    repository_url: apiUrl(world, repository),
    labels_url: `${url}/labels{/name}`,
    comments_url: `${url}/comments`,
    events_url: `${url}/events`,
    timeline_url: `${url}/timeline`,
    html_url: page,
    number: thread.number,
    state: thread.state,
    state_reason: thread.state === "closed" ? "completed" : null,
    title: thread.title,
    body: thread.body === "" ? null : thread.body,
    user: showUser(world, thread.author),
    labels: thread.labels.map((label) => showLabel(world, repository, label)),
    assignee: thread.assignees[0] ? showUser(world, thread.assignees[0]) : null,
    assignees: thread.assignees.map((user) => showUser(world, user)),
    milestone: null,
    locked: thread.locked,
    active_lock_reason: null,
    comments: ofThread(repository.comments, thread).length,
    closed_at: thread.closedAt?.toISOString() ?? null,
    created_at: thread.createdAt.toISOString(),
    updated_at: thread.updatedAt.toISOString(),
    author_association: showAssociation(repository, thread.author),
    reactions: showReactions(url, thread.reactions),
    performed_via_github_app: thread.app ? showApp(world, thread.app) : null,
    ...(thread.type !== undefined && { type: showType(thread) }),
    ...(thread.fields && { issue_field_values: showFields(thread.fields) }),
    ...(thread.subIssues && {
      sub_issues_summary: {
        ...thread.subIssues,
        percent_completed: Math.floor((100 * thread.subIssues.completed) / thread.subIssues.total),
      },
    }),
    ...(thread.pull && {
      draft: thread.pull.draft,
      pull_request: {
        url: `${apiUrl(world, repository)}/pulls/${thread.number}`,
        html_url: page,
        diff_url: `${page}.diff`,
        patch_url: `${page}.patch`,
        merged_at: thread.pull.merged?.at.toISOString() ?? null,
      },
    }),
  };
}

function showType({ id, type = "" }: Thread): Schemas["issue"]["type"] {
  return { id, node_id: nodeId("IssueType", id), name: type, description: null };
}

function showFields(fields: Record<string, string>): Schemas["issue-field-value"][] {
  return Object.entries(fields).map(([issue_field_name, name], index) => ({
    issue_field_id: index + 1,
    issue_field_name,
    node_id: nodeId("IssueField", index + 1),
    data_type: "single_select",
    value: name,
    single_select_option: { id: index + 1, name, color: "gray" },
  }));
}

/** Shows an event as the list of an issue's events does. The actor of an assignment is the person who is assigned. */
export function showThreadEvent(
  world: World,
  repository: Repository,
  { id, event, by, app, at, label, assignee, reviewer }: ThreadEvent,
): Schemas["issue-event-for-issue"] {
  const actor = showUser(world, by);
  const common = {
    ...{ id, actor, event, node_id: nodeId("IssueEvent", id), commit_id: null, commit_url: null },
    url: `${apiUrl(world, repository)}/issues/events/${id}`,
    created_at: at.toISOString(),
    // The schema of an assignment does not say that there may be none.
    performed_via_github_app: (app ? showApp(world, app) : null) as Schemas["integration"],
  };
  if (label) return { ...common, label: { name: label.name, color: label.color } };
  if (assignee) {
    const assigned = showUser(world, assignee);
    return { ...common, actor: assigned, assignee: assigned, assigner: actor };
  }
  if (reviewer) return { ...common, review_requester: actor, requested_reviewer: showUser(world, reviewer) };
  return common;
}

export function showComment(world: World, repository: Repository, comment: StoredComment): Schemas["issue-comment"] {
  const url = `${apiUrl(world, repository)}/issues/comments/${comment.id}`;
  const thread = repository.threads.get(comment.thread);
  const page = thread ? threadUrl(world, repository, thread) : pageUrl(world, repository);
  return {
    id: comment.id,
    node_id: nodeId("IssueComment", comment.id),
    url,
    html_url: `${page}#issuecomment-${comment.id}`,
    issue_url: `${apiUrl(world, repository)}/issues/${comment.thread}`,
    body: comment.body,
    user: showUser(world, comment.author),
    created_at: comment.createdAt.toISOString(),
    updated_at: comment.updatedAt.toISOString(),
    author_association: showAssociation(repository, comment.author),
    reactions: showReactions(url, comment.reactions),
    performed_via_github_app: comment.app ? showApp(world, comment.app) : null,
  };
}
