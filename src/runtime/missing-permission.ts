import type { GitHub } from "#domain/github.ts";
import { hasMarker, markerOf } from "#text/comment-marker.ts";
import type { Runs } from "./runs.ts";

/** Says in a thread that the installation lacks a permission, once per installation. */
export async function reportMissingPermission(
  permission: string,
  { github, thread, keys }: { github: GitHub; thread: number; keys: Pick<Runs, "hasRecorded" | "record"> },
): Promise<void> {
  const key = `permission ${github.repository.installationId} ${permission}`;
  if (await keys.hasRecorded(key)) return;
  const name = `permission/${permission}`;
  // After a crash, the comment may have been posted without the key.
  const posted = (await github.listComments(thread)).some(({ own, body }) => own && hasMarker(body, name));
  if (!posted) await github.createComment(thread, `${describe(permission)}\n\n${markerOf(name)}`);
  await keys.record(key);
}

function describe(permission: string): string {
  if (permission === "checks: write") {
    return "The settings of this repository ask for a check run with the findings of reviews (`check_run: true`), but this app has not been granted the permission `checks: write` here. The owner of the app adds it to the app's permissions, and an owner of this account accepts it. Until then, the findings are in the reviews only.";
  }
  return `This app has not been granted the permission \`${permission}\` here, so workers learn less about failed checks. An owner of the account can grant it in the settings of the installed app.`;
}
