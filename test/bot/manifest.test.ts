import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { parse } from "yaml";
import { subscribedEvents } from "#bot/deliveries/handlers.ts";
import { endpoints, gitPermissions, mutations } from "#bot/manifest.ts";
import { callbackPath } from "#web/sign-in.ts";

const app = parse(readFileSync("app.yml", "utf8")) as {
  default_events: string[];
  default_permissions: Record<string, string>;
  callback_urls: string[];
};

test("app.yml redirects people who sign in to the app's own address", () => {
  expect(app.callback_urls.map((url) => new URL(url).pathname)).toEqual([callbackPath]);
});

test("app.yml subscribes to exactly the events that the code handles", () => {
  expect([...app.default_events].sort()).toEqual([...subscribedEvents].sort());
});

test("app.yml asks for exactly the permissions that the code uses", () => {
  const used: Record<string, string> = {};
  for (const permissions of [
    ...Object.values(endpoints),
    ...Object.values(mutations),
    ...Object.values(gitPermissions),
  ]) {
    for (const [name, level] of Object.entries(permissions as Record<string, string>)) {
      if (used[name] !== "write") used[name] = level;
    }
  }

  expect(app.default_permissions).toEqual(used);
});

test("nothing the code calls can merge, approve, dispatch or administer", () => {
  // A replica takes back its own comment when another one has posted it before.
  const deleteComment = "DELETE /repos/{owner}/{repo}/issues/comments/{comment_id}";
  // A review takes back the App's own request for changes.
  const dismissReview = "PUT /repos/{owner}/{repo}/pulls/{pull_number}/reviews/{review_id}/dismissals";
  const allowed = [deleteComment, dismissReview];
  const writes = [
    ...Object.keys(endpoints).filter((endpoint) => !endpoint.startsWith("GET") && !allowed.includes(endpoint)),
    ...Object.keys(mutations),
  ].join("\n");

  expect(writes).not.toMatch(/merge|reviews$|dispatch|DELETE|PUT|branches|git\/refs|\/actions|admin|hooks\//);
});
