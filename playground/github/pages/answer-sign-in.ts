import type { IncomingMessage, ServerResponse } from "node:http";
import { z } from "zod";
import { collaborators } from "#playground/github/create-world.ts";
import { readRequest } from "#playground/github/read-request.ts";
import type { ServerContext } from "#playground/github/rest/answer-rest.ts";
import { nameKey } from "#playground/github/world.ts";
import type { AuthorizeRequest } from "./oauth.ts";

const headers = {
  "Content-Security-Policy": "default-src 'none'; style-src 'self'; base-uri 'none'; frame-ancestors 'none'",
  "Referrer-Policy": "no-referrer",
  "Cache-Control": "no-store",
};

/** True for the two addresses of the web flow in which a user signs in to the app. */
export function isSignIn(pathname: string): boolean {
  return pathname === "/login/oauth/authorize" || pathname === "/login/oauth/access_token";
}

/** Lets a visitor choose the user to sign in as, and gives the app a token of that user. */
export async function answerSignIn(
  server: ServerContext,
  { request, response, url }: { request: IncomingMessage; response: ServerResponse; url: URL },
): Promise<void> {
  if (url.pathname === "/login/oauth/access_token" && request.method === "POST") {
    return sendToken(server, request, response);
  }
  const authorization: AuthorizeRequest = {
    clientId: url.searchParams.get("client_id") ?? "",
    redirectUri: url.searchParams.get("redirect_uri") ?? "",
    state: url.searchParams.get("state") ?? "",
    challenge:
      url.searchParams.get("code_challenge_method") === "S256" ? (url.searchParams.get("code_challenge") ?? "") : "",
  };
  const problem = server.oauth.findProblem(authorization);
  if (problem) return void response.writeHead(400, { ...headers, "Content-Type": "text/plain" }).end(`${problem}\n`);

  const user = server.world.users.get(nameKey(url.searchParams.get("as") ?? ""));
  if (user?.type === "User") {
    return void response.writeHead(302, { ...headers, Location: server.oauth.authorize(authorization, user) }).end();
  }
  response.writeHead(200, { ...headers, "Content-Type": "text/html; charset=utf-8" }).end(userChoicePage(server, url));
}

async function sendToken(server: ServerContext, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const body = (await readRequest(request, 10_000)).toString("utf8");
  const isJson = request.headers["content-type"]?.startsWith("application/json") === true;
  const fields = new URLSearchParams(isJson ? z.record(z.string(), z.string()).parse(JSON.parse(body)) : body);
  const of = (name: string) => fields.get(name) ?? "";
  const user = server.oauth.redeem({
    clientId: of("client_id"),
    clientSecret: of("client_secret"),
    code: of("code"),
    redirectUri: of("redirect_uri"),
    verifier: of("code_verifier"),
  });
  // GitHub answers 200 to a refused code as well.
  const answer = user
    ? { access_token: server.credentials.issueToUser(user), scope: "", token_type: "bearer" }
    : { error: "bad_verification_code", error_description: "The code passed is incorrect or expired." };
  response.writeHead(200, { ...headers, "Content-Type": "application/json" }).end(JSON.stringify(answer));
}

function userChoicePage({ world }: ServerContext, url: URL): string {
  const links = Object.entries(collaborators).map(([login, permission]) => {
    const query = new URLSearchParams([...url.searchParams.entries(), ["as", login]])
      .toString()
      .replaceAll("&", "&amp;");
    return `<li><a href="?${query}">${login}</a> (${permission} access)</li>`;
  });
  return `<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>Sign in to ${world.app.name}</title><link rel="stylesheet" href="/-/assets/page.css">
<main class="markdown"><h1>Sign in to ${world.app.name}</h1><p>This is a demo: choose who to sign in as.</p><ul>${links.join("")}</ul></main></html>`;
}
