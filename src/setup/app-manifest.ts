import { readFile } from "node:fs/promises";
import { z } from "zod";
import { readYaml } from "#text/read-yaml.ts";

/** A GitHub App as `app.yml` describes it. */
const AppManifest = z.object({
  name: z.string(),
  description: z.string(),
  url: z.url(),
  public: z.boolean(),
  callback_urls: z.array(z.url()),
  default_events: z.array(z.string()),
  default_permissions: z.record(z.string(), z.enum(["read", "write"])),
});
export type AppManifest = z.infer<typeof AppManifest>;

/** Reads the `app.yml` included in this program. */
export async function readAppManifest(): Promise<AppManifest> {
  const text = await readFile(new URL("../../app.yml", import.meta.url), "utf8");
  return AppManifest.parse(readYaml(text, "app.yml"));
}

/**
 * Returns the manifest for GitHub's "Register a GitHub App from a manifest", for an App at `origin`.
 * https://docs.github.com/apps/sharing-github-apps/registering-a-github-app-from-a-manifest
 */
export function manifestFor(
  manifest: AppManifest,
  {
    name,
    origin,
    webhookPath,
    redirectUrl,
  }: { name: string; origin: string; webhookPath: string; redirectUrl: string },
): object {
  return {
    ...manifest,
    name,
    callback_urls: [`${origin}/runs/-/signed-in`],
    redirect_url: redirectUrl,
    hook_attributes: { url: `${origin}${webhookPath}`, active: true },
  };
}
