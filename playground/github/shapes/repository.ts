import type { AppPermissions, Repository, World } from "#playground/github/world.ts";
import { nodeId } from "./node-id.ts";
import type { Schemas } from "./schemas.ts";
import { showUser } from "./user.ts";

export function fullName(repository: Repository): string {
  return `${repository.owner.login}/${repository.name}`;
}

export function apiUrl(world: World, repository: Repository): string {
  return `${world.url}/api/v3/repos/${fullName(repository)}`;
}

export function pageUrl(world: World, repository: Repository): string {
  return `${world.url}/${fullName(repository)}`;
}

export function showRepository(
  world: World,
  repository: Repository,
  permissions?: AppPermissions,
): Schemas["repository"] {
  const { security_and_analysis, network_count, subscribers_count, temp_clone_token, ...common } = showFullRepository(
    world,
    repository,
  );
  return {
    ...common,
    permissions: {
      admin: false,
      maintain: false,
      push: permissions?.contents === "write",
      triage: permissions?.issues === "write",
      pull: true,
    },
  };
}

export function showFullRepository(world: World, repository: Repository) {
  const url = apiUrl(world, repository);
  const page = pageUrl(world, repository);
  const threads = [...repository.threads.values()];
  const openIssues = threads.filter((thread) => thread.state === "open").length;
  return {
    id: repository.id,
    node_id: nodeId("Repository", repository.id),
    name: repository.name,
    full_name: fullName(repository),
    owner: showUser(world, repository.owner),
    private: repository.private,
    html_url: page,
    description: repository.description,
    fork: repository.forkOf !== undefined,
    url,
    archive_url: `${url}/{archive_format}{/ref}`,
    assignees_url: `${url}/assignees{/user}`,
    blobs_url: `${url}/git/blobs{/sha}`,
    branches_url: `${url}/branches{/branch}`,
    collaborators_url: `${url}/collaborators{/collaborator}`,
    comments_url: `${url}/comments{/number}`,
    commits_url: `${url}/commits{/sha}`,
    compare_url: `${url}/compare/{base}...{head}`,
    contents_url: `${url}/contents/{+path}`,
    contributors_url: `${url}/contributors`,
    deployments_url: `${url}/deployments`,
    downloads_url: `${url}/downloads`,
    events_url: `${url}/events`,
    forks_url: `${url}/forks`,
    git_commits_url: `${url}/git/commits{/sha}`,
    git_refs_url: `${url}/git/refs{/sha}`,
    git_tags_url: `${url}/git/tags{/sha}`,
    git_url: `${page.replace(/^https?/, "git")}.git`,
    issue_comment_url: `${url}/issues/comments{/number}`,
    issue_events_url: `${url}/issues/events{/number}`,
    issues_url: `${url}/issues{/number}`,
    keys_url: `${url}/keys{/key_id}`,
    labels_url: `${url}/labels{/name}`,
    languages_url: `${url}/languages`,
    merges_url: `${url}/merges`,
    milestones_url: `${url}/milestones{/number}`,
    notifications_url: `${url}/notifications{?since,all,participating}`,
    pulls_url: `${url}/pulls{/number}`,
    releases_url: `${url}/releases{/id}`,
    ssh_url: `git@${new URL(world.url).hostname}:${fullName(repository)}.git`,
    stargazers_url: `${url}/stargazers`,
    statuses_url: `${url}/statuses/{sha}`,
    subscribers_url: `${url}/subscribers`,
    subscription_url: `${url}/subscription`,
    tags_url: `${url}/tags`,
    teams_url: `${url}/teams`,
    trees_url: `${url}/git/trees{/sha}`,
    clone_url: `${page}.git`,
    mirror_url: null,
    hooks_url: `${url}/hooks`,
    svn_url: page,
    homepage: null,
    language: null,
    forks_count: 0,
    stargazers_count: 0,
    watchers_count: 0,
    size: 0,
    default_branch: repository.defaultBranch,
    open_issues_count: openIssues,
    is_template: false,
    topics: [],
    has_issues: true,
    has_projects: false,
    has_wiki: false,
    has_pages: false,
    has_downloads: false,
    has_discussions: false,
    archived: false,
    disabled: false,
    visibility: repository.private ? "private" : "public",
    pushed_at: repository.createdAt.toISOString(),
    created_at: repository.createdAt.toISOString(),
    updated_at: repository.updatedAt.toISOString(),
    allow_rebase_merge: true,
    temp_clone_token: null,
    allow_squash_merge: true,
    allow_auto_merge: false,
    delete_branch_on_merge: false,
    allow_merge_commit: true,
    allow_forking: true,
    web_commit_signoff_required: false,
    subscribers_count: 0,
    network_count: 0,
    license: null,
    forks: 0,
    open_issues: openIssues,
    watchers: 0,
    security_and_analysis: null,
    custom_properties: {},
  } satisfies Schemas["full-repository"];
}
