import type { User, World } from "#playground/github/world.ts";
import { nodeId } from "./node-id.ts";
import type { Schemas } from "./schemas.ts";

export function showUser(world: World, user: User) {
  const url = `${world.url}/api/v3/users/${encodeURIComponent(user.login)}`;
  return {
    login: user.login,
    id: user.id,
    node_id: nodeId(user.type, user.id),
    avatar_url: `${world.url}/-/avatars/${user.id}`,
    gravatar_id: "",
    url,
    html_url: `${world.url}/${encodeURIComponent(user.login)}`,
    followers_url: `${url}/followers`,
    following_url: `${url}/following{/other_user}`,
    gists_url: `${url}/gists{/gist_id}`,
    starred_url: `${url}/starred{/owner}{/repo}`,
    subscriptions_url: `${url}/subscriptions`,
    organizations_url: `${url}/orgs`,
    repos_url: `${url}/repos`,
    events_url: `${url}/events{/privacy}`,
    received_events_url: `${url}/received_events`,
    type: user.type,
    site_admin: false,
  } satisfies Schemas["simple-user"];
}

export function showPublicUser(world: World, user: User): Schemas["public-user"] {
  return {
    ...showUser(world, user),
    name: null,
    company: null,
    blog: null,
    location: null,
    email: null,
    hireable: null,
    bio: null,
    public_repos: 0,
    public_gists: 0,
    followers: 0,
    following: 0,
    created_at: world.app.createdAt.toISOString(),
    updated_at: world.app.createdAt.toISOString(),
  };
}
