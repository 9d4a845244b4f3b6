import { expect, test, vi } from "vitest";
import { createOctokit } from "#config/create-octokit.ts";
import { githubApiVersion } from "#domain/github.ts";

test("every request names the version of GitHub's API, and an answer about its deprecation is not printed by default", async () => {
  const asked: Headers[] = [];
  const fetch = async (_: unknown, { headers }: RequestInit) => {
    asked.push(new Headers(headers));
    return new Response("{}", {
      headers: { "content-type": "application/json", deprecation: "Sat, 01 Jan 2028", sunset: "x" },
    });
  };
  const warned = vi.fn();

  await createOctokit({ auth: "token", request: { fetch } }).request("GET /meta");
  await createOctokit({ request: { fetch }, warn: warned }).rest.meta.root();

  expect(asked.map((headers) => headers.get("x-github-api-version"))).toEqual([githubApiVersion, githubApiVersion]);
  expect(asked.map((headers) => headers.get("authorization"))).toEqual(["token token", null]);
  expect(warned).toHaveBeenCalledOnce();
});
