import type { AppIdentity, Installation, World } from "#playground/github/world.ts";
import { nodeId } from "./node-id.ts";
import type { Schemas } from "./schemas.ts";
import { showUser } from "./user.ts";

export function showApp(world: World, app: AppIdentity): NonNullable<Schemas["integration"]> {
  return {
    id: app.id,
    slug: app.slug,
    node_id: nodeId("App", app.id),
    owner: showUser(world, app.owner),
    name: app.name,
    description: "",
    external_url: world.url,
    html_url: `${world.url}/apps/${app.slug}`,
    created_at: app.createdAt.toISOString(),
    updated_at: app.createdAt.toISOString(),
    permissions: app.permissions,
    events: app.events,
  };
}

export function showInstallation(world: World, { id, account, suspended }: Installation) {
  const { app } = world;
  const url = `${world.url}/api/v3/app/installations/${id}`;
  const since = app.createdAt.toISOString();
  return {
    id,
    // GitHub's schema requires the fields of both a user and an enterprise.
    account: {
      ...showUser(world, account),
      name: account.login,
      slug: account.login,
      created_at: since,
      updated_at: since,
    },
    repository_selection: "selected" as const,
    access_tokens_url: `${url}/access_tokens`,
    repositories_url: `${world.url}/api/v3/installation/repositories`,
    html_url: `${world.url}/settings/installations/${id}`,
    app_id: app.id,
    app_slug: app.slug,
    target_id: account.id,
    target_type: account.type,
    permissions: app.permissions,
    events: app.events,
    single_file_name: null,
    has_multiple_single_files: false,
    single_file_paths: [],
    created_at: app.createdAt.toISOString(),
    updated_at: app.createdAt.toISOString(),
    suspended_by: null,
    suspended_at: suspended ? since : null,
  } satisfies Schemas["installation"];
}
