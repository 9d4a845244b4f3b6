import type { GitHub } from "#domain/github.ts";
import { hasMarker, markerOf } from "#text/comment-marker.ts";
import type { Runs } from "./runs.ts";

/** Says in a thread that the installation lacks a permission, once per installation. */
export async function reportMissingPermission(
  permission: string,
  { github, thread, keys }: { github: GitHub; thread: number; keys: Pick<Runs, "hasRecorded" | "recordKey"> },
): Promise<void> {
  const key = `permission ${github.repository.installationId} ${permission}`;
  if (await keys.hasRecorded(key)) return;
  const name = `permission/${permission}`;
  // After a crash, the comment may have been posted without the key.
  const posted = (await github.listComments(thread)).some(({ own, body }) => own && hasMarker(body, name));
  if (!posted) await github.createComment(thread, `${describePermission(permission)}\n\n${markerOf(name)}`);
  await keys.recordKey(key);
}

function describePermission(permission: string): string {
  if (permission === "checks: write") {
    return "The settings of this repository ask for a check run with the findings of reviews (`check_run: true`), but this app has not been granted the permission `checks: write` here. Until it is, the findings are only in the reviews.\n\n- The owner of the app: add `checks: write` to the app's permissions.\n- An owner of this account: accept the new permission in the settings of the installed app.";
  }
  return `This app has not been granted the permission \`${permission}\` here, so workers cannot see all details of failed checks. An owner of the account can grant it in the settings of the installed app.`;
}
