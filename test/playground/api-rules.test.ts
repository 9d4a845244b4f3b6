import { afterEach, beforeEach, expect, test } from "vitest";
import { PlaygroundWorld, shop } from "../support/playground-world.ts";

let world: PlaygroundWorld;
let request: (path: string, headers?: Record<string, string>) => Promise<Response>;

beforeEach(async () => {
  world = await PlaygroundWorld.start();
  request = requestWith(world, await world.token());
});
afterEach(() => world.close());

function requestWith({ github }: PlaygroundWorld, token: string): typeof request {
  return (path, headers = {}) => {
    return fetch(`${github.apiUrl}${path}`, { headers: { authorization: `Bearer ${token}`, ...headers } });
  };
}

test("an installation token has the form and the length of GitHub's", async () => {
  const token = await world.token();

  expect(token).toMatch(/^ghs_7_eyJ[\w-]+\.[\w-]+\.[\w-]+$/);
  expect(token.length).toBeGreaterThan(480);
  expect(token.length).toBeLessThan(560);
});

test("a supported REST version is accepted and reported, and any other is refused", async () => {
  const versions = [undefined, "2022-11-28", "2026-03-10", "2021-01-01"];

  const answers = await Promise.all(
    versions.map((version) => request("/repos/playground/shop", version ? { "x-github-api-version": version } : {})),
  );

  expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 400]);
  expect(answers[0]?.headers.get("x-github-api-version-selected")).toBe("2022-11-28");
  expect(answers[2]?.headers.get("x-github-api-version-selected")).toBe("2026-03-10");
});

test("a client that has the response is answered 304, but not with another token", async () => {
  const first = await request("/repos/playground/shop");
  const etag = { "if-none-match": String(first.headers.get("etag")) };

  const again = await request("/repos/playground/shop", etag);
  const withOtherToken = await requestWith(world, await world.token())("/repos/playground/shop", etag);

  expect([again.status, withOtherToken.status]).toEqual([304, 200]);
});

test("a renamed repository is redirected to its id", async () => {
  const { github } = world;
  const repository = github.repository();
  github.accountChanges.rename(repository, "store");

  const answer = await fetch(`${github.apiUrl}/repos/playground/shop/issues?state=all`, { redirect: "manual" });

  expect([answer.status, answer.headers.get("location")]).toEqual([
    301,
    `${github.apiUrl}/repositories/${repository.id}/issues?state=all`,
  ]);
});

test("secondary limits refuse content and points above a minute's allowance, and say how long to wait", async () => {
  const limited = await PlaygroundWorld.start({ limits: { contentPerMinute: 2, pointsPerMinute: 20 } });
  const { number } = limited.github.as("visitor").openIssue({ title: "Busy" });
  const octokit = await limited.client();
  const comment = () => octokit.rest.issues.createComment({ ...shop, issue_number: number, body: "Working" });
  const read = () => octokit.rest.issues.get({ ...shop, issue_number: number });

  await comment();
  await comment();
  const refused = await comment().catch(
    (error: { status: number; response: { headers: object; data: object } }) => error,
  );
  const reads = await Promise.allSettled(Array.from({ length: 11 }, read));
  await limited.close();

  expect(refused).toMatchObject({
    status: 403,
    response: {
      headers: { "retry-after": expect.stringMatching(/^(59|60)$/) },
      data: { message: expect.stringContaining("secondary rate limit") },
    },
  });
  expect(reads.filter(({ status }) => status === "fulfilled")).toHaveLength(10);
});

test("the primary limit counts down in the headers, and refuses with the time of its reset", async () => {
  const limited = await PlaygroundWorld.start({ limits: { requestsPerHour: 2 } });
  const ask = requestWith(limited, await limited.token());

  const answers = [
    await ask("/repos/playground/shop"),
    await ask("/repos/playground/shop"),
    await ask("/repos/playground/shop"),
  ];
  await limited.close();

  expect(answers.map(({ status }) => status)).toEqual([200, 200, 403]);
  expect(answers.map(({ headers }) => headers.get("x-ratelimit-remaining"))).toEqual(["1", "0", "0"]);
});

test("a comment that another app posted with a person's token names that app", async () => {
  const { number } = world.github.as("visitor").openIssue({ title: "Automated" });

  world.github.as("maintainer").comment(number, "/approve", { app: "helpful-app" });

  await world.github.deliveriesSettled();
  expect(world.received.at(-1)?.payload).toMatchObject({
    comment: { user: { login: "maintainer" }, performed_via_github_app: { slug: "helpful-app" } },
  });
});

test.each([
  [
    "an unknown field",
    '{ repository(owner: "playground", name: "shop") { nothing } }',
    "Field 'nothing' doesn't exist",
  ],
  ["an unknown id", '{ node(id: "nobody") { id } }', "Could not resolve to a node"],
])("a GraphQL query with %s is answered with an error", async (_, query, message) => {
  const octokit = await world.client();

  await expect(octokit.graphql(query)).rejects.toThrow(message);
});
