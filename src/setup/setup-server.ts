import { randomBytes } from "node:crypto";
import { access, constants } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { serve } from "@hono/node-server";
import { Hono } from "hono";
import { html } from "hono/html";
import { z } from "zod";
import type { ServerAddress } from "#config/config.ts";
import { createOctokit } from "#config/create-octokit.ts";
import { UserError } from "#domain/errors.ts";
import { equalSecrets } from "#text/equal-secrets.ts";
import { manifestFor, readAppManifest } from "./app-manifest.ts";
import { addToEnvFile, assertNotSet, namesIn, writeSecretFile } from "./env-file.ts";

/** A port of 0 takes any free port. */
export interface SetupOptions extends ServerAddress {
  /** The file for the settings. The private key is written next to it. */
  envFile: string;
}

export interface SetupServer {
  /** The page to open, with the token that opens it. */
  url: string;
  /** Resolves to the App's name and page once it is registered and its settings are written. */
  registered: Promise<RegisteredApp>;
  close(): Promise<void>;
}

export interface RegisteredApp {
  name: string;
  url: string;
  envFile: string;
}

// https://docs.github.com/rest/apps/apps#create-a-github-app-from-a-manifest
const Conversion = z.object({
  id: z.number(),
  name: z.string(),
  html_url: z.url(),
  pem: z.string(),
  webhook_secret: z.string(),
  client_id: z.string(),
  client_secret: z.string(),
});

/**
 * Serves the page that registers a GitHub App from a manifest and writes its settings. It requires the secret address that is
 * printed at the start; otherwise anyone who finds an unconfigured server could connect it to their own App.
 */
export async function startSetupServer(options: SetupOptions): Promise<SetupServer> {
  const token = randomBytes(24).toString("base64url");
  const done = Promise.withResolvers<RegisteredApp>();
  const app = setupApp(options, token, done.resolve);
  const { server, port } = await listen(app, options);
  return {
    url: `http://${options.host}:${port}/?token=${token}`,
    registered: done.promise,
    close: () => new Promise((resolve) => server.close(() => resolve())),
  };
}

function setupApp(options: SetupOptions, token: string, onRegistered: (app: RegisteredApp) => void): Hono {
  const app = new Hono();
  let publicUrl: string | undefined;
  app.use(async (context, next) => {
    const given = context.req.query("token") ?? context.req.query("state") ?? "";
    if (!equalSecrets(given, token))
      return context.html(
        page("Not found", html`<p>Open the address that the server printed when it started.</p>`),
        404,
      );
    context.header("Referrer-Policy", "no-referrer");
    context.header("Cache-Control", "no-store");
    return next();
  });
  app.get("/", (context) => context.html(page("Set up Golem Forge", form(token))));
  app.get("/register", async (context) => {
    const asked = Registration.safeParse(context.req.query());
    if (!asked.success)
      return context.html(page("Set up Golem Forge", form(token, asked.error.issues[0]?.message)), 400);
    const { name, origin, organization } = asked.data;
    publicUrl = origin;
    // Behind a proxy with TLS this server sees http, and GitHub is to send the browser back as it came.
    const { host, origin: ownOrigin } = new URL(context.req.url);
    const redirectUrl = new URL("/registered", host === new URL(origin).host ? origin : ownOrigin).href;
    const manifest = manifestFor(await readAppManifest(), {
      name,
      origin,
      webhookPath: options.webhookPath,
      redirectUrl,
    });
    const owner = organization ? `organizations/${encodeURIComponent(organization)}/` : "";
    const action = `${options.webUrl}/${owner}settings/apps/new?state=${token}`;
    return context.html(page("Register the App on GitHub", registerForm(action, manifest)));
  });
  app.get("/registered", async (context) => {
    try {
      const registered = await register(context.req.query("code") ?? "", { ...options, publicUrl });
      onRegistered(registered);
      return context.html(page("The App is registered", next(registered)));
    } catch (error) {
      if (!(error instanceof UserError)) throw error;
      return context.html(page("Nothing was written", html`<p>${error.message}</p>`), 400);
    }
  });
  app.onError((error, context) => context.html(page("Something went wrong", html`<p>${error.message}</p>`), 500));
  return app;
}

const Registration = z.object({
  name: z.string().trim().min(1, "Give the App a name.").max(34, "The name can have at most 34 characters."),
  origin: z
    .url({ protocol: /^https?$/, error: "Give the public address of this server, such as https://forge.example.com." })
    .transform((url) => new URL(url).origin),
  organization: z
    .string()
    .trim()
    .regex(/^[\w-]*$/, "An organization's name has letters, digits and hyphens only.")
    .optional(),
});

async function register(
  code: string,
  { publicUrl, ...options }: SetupOptions & { publicUrl: string | undefined },
): Promise<RegisteredApp> {
  const { apiUrl, envFile } = options;
  // Check before using the code: GitHub shows the App's key only once.
  await assertNotSet(envFile, [
    "APP_ID",
    "PRIVATE_KEY_PATH",
    "WEBHOOK_SECRET",
    "GITHUB_CLIENT_ID",
    "GITHUB_CLIENT_SECRET",
  ]);
  const folder = dirname(resolve(envFile));
  await access(folder, constants.W_OK).catch((error) => {
    throw new UserError(`Nothing can be written to ${folder}. Make it writable, or choose another file.`, {
      cause: error,
    });
  });
  const octokit = createOctokit({ baseUrl: apiUrl });
  const { data } = await octokit.request("POST /app-manifests/{code}/conversions", { code }).catch((error) => {
    throw new UserError("GitHub did not accept the code. It is valid for an hour and can be used once: start again.", {
      cause: error,
    });
  });
  const app = Conversion.parse(data);
  const slug = new URL(app.html_url).pathname.split("/").at(-1) ?? "";
  const keyFile = await writeSecretFile(join(folder, slug), ".private-key.pem", app.pem);
  await addToEnvFile(envFile, {
    APP_ID: String(app.id),
    PRIVATE_KEY_PATH: keyFile,
    WEBHOOK_SECRET: app.webhook_secret,
    GITHUB_CLIENT_ID: app.client_id,
    GITHUB_CLIENT_SECRET: app.client_secret,
    ...(await addressVariables(options, publicUrl)),
  });
  return { name: app.name, url: app.html_url, envFile };
}

/** Returns the addresses that were entered or taken from the environment of this process, without those in the env file. */
async function addressVariables(
  { webUrl, envFile }: SetupOptions,
  publicUrl: string | undefined,
): Promise<Record<string, string>> {
  const { protocol, host } = new URL(webUrl);
  const variables = {
    ...(publicUrl && { GOLEM_FORGE_URL: publicUrl }),
    ...(host !== "github.com" && { GHE_HOST: host, GHE_PROTOCOL: protocol.slice(0, -1) }),
  };
  const known = await namesIn(envFile);
  return Object.fromEntries(Object.entries(variables).filter(([name]) => !known.includes(name)));
}

/** The steps that follow the registration, for a terminal. */
export function nextSteps({ name, url, envFile }: RegisteredApp): string {
  return `${name} is registered, and its settings are in ${envFile}.

Next:
  1. Add a model to ${envFile}: GOLEM_FORGE_MODEL=anthropic:claude-sonnet-4-5 and ANTHROPIC_API_KEY=…
  2. Start the server with npm start, and run golem doctor while it runs.
  3. Install the App on a repository: ${url}/installations/new
  4. Comment /help on an issue there.
`;
}

async function listen(app: Hono, { host, port }: SetupOptions) {
  return new Promise<{ server: ReturnType<typeof serve>; port: number }>((resolve, reject) => {
    const server = serve({ fetch: app.fetch, hostname: host, port }, (info) => resolve({ server, port: info.port }));
    server.on("error", (error: NodeJS.ErrnoException) => {
      reject(
        error.code === "EADDRINUSE" ? new UserError(`Port ${port} is in use. Choose another one with PORT.`) : error,
      );
    });
  });
}

type Html = ReturnType<typeof html>;

function page(title: string, body: Html): Html {
  return html`<!doctype html>
<html lang="en">
<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>${title}</title>
<style>
  :root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }
  body { max-width: 36rem; margin: 3rem auto; padding: 0 1rem; }
  label { display: block; margin: 1rem 0; } input { display: block; width: 100%; font: inherit; padding: .4rem; box-sizing: border-box; }
  button { font: inherit; padding: .5rem 1rem; } code { overflow-wrap: anywhere; }
</style>
<h1>${title}</h1>
${body}
</html>`;
}

function form(token: string, problem?: string): Html {
  return html`<p>This registers a GitHub App for this server and writes its settings. It takes a minute.</p>
${problem ? html`<p role="alert"><strong>${problem}</strong></p>` : ""}
<form action="/register">
  <input type="hidden" name="token" value="${token}">
  <label>Name of the App <input name="name" value="Golem Forge" required maxlength="34"></label>
  <label>Public address of this server <input name="origin" type="url" placeholder="https://forge.example.com" required></label>
  <label>Organization (leave empty for your own account) <input name="organization"></label>
  <button>Continue</button>
</form>`;
}

function registerForm(action: string, manifest: object): Html {
  return html`<p>GitHub shows the App's permissions and asks you to confirm. You come back here afterwards.</p>
<form action="${action}" method="post">
  <input type="hidden" name="manifest" value="${JSON.stringify(manifest)}">
  <button>Register on GitHub</button>
</form>`;
}

function next({ name, url, envFile }: RegisteredApp): Html {
  return html`<p>${name} is registered. Its settings are in <code>${envFile}</code>, its private key next to it.</p>
<ol>
  <li>Add a model to <code>${envFile}</code>: <code>GOLEM_FORGE_MODEL=anthropic:claude-sonnet-4-5</code> and <code>ANTHROPIC_API_KEY=…</code></li>
  <li>Start the server again, and run <code>golem doctor</code> while it runs.</li>
  <li><a href="${url}/installations/new">Install the App on a repository</a> and comment <code>/help</code> on an issue.</li>
</ol>`;
}
