import { afterAll, beforeAll, expect, test } from "vitest";
import { OutageError, UserError } from "#domain/errors.ts";
import { pushAll, type SandboxWorld, startSandboxWorld } from "../../support/sandbox-world.ts";

const good = "ghs_goodgoodgoodgoodgoodgoodgoodgood1234";
const bad = "ghs_badbadbadbadbadbadbadbadbadbadbad123";

let world: SandboxWorld;
beforeAll(async () => {
  world = await startSandboxWorld({ token: good });
});
afterAll(() => world.close());

test("a valid token can read and push", async () => {
  const repository = await world.repositoryWith({ a: "1" });

  const sandbox = await world.open(repository, { token: good });
  await sandbox.write("b", "2");
  const commit = await pushAll(sandbox, "golem/1");

  expect((await repository.git("rev-parse", "golem/1")).trim()).toBe(commit);
});

test("a token that was revoked early is replaced once, for a fetch and for a push", async () => {
  const repository = await world.repositoryWith({ a: "1" });
  let [current, replaced] = [bad, 0];
  const token = async (_: string, rejected?: string) => {
    if (rejected === current) [current, replaced] = [good, replaced + 1];
    return current;
  };

  const sandbox = await world.open(repository, {
    source: { tenant: repository.url, url: repository.url, token },
  });
  await sandbox.write("b", "2");
  current = bad;
  const commit = await pushAll(sandbox, "golem/1");

  expect((await repository.git("rev-parse", "golem/1")).trim()).toBe(commit);
  expect(replaced).toBe(2);
});

test("a new token that the server does not accept either is an outage", async () => {
  const repository = await world.repositoryWith({ a: "1" });
  const token = async (_: string, rejected?: string) => (rejected === bad ? `${bad} again` : bad);

  const opening = world.open(repository, { source: { tenant: repository.url, url: repository.url, token } });

  await expect(opening).rejects.toBeInstanceOf(OutageError);
});

test("the error for a rejected token does not contain it", async () => {
  const repository = await world.repositoryWith({ a: "1" });

  const error = await world.open(repository, { token: bad }).catch((thrown) => thrown);

  expect(error).toBeInstanceOf(UserError);
  expect(error.message).toMatch(
    /^The git server does not allow this app to read octo\/demo-\d+ \(401\)\. It says: Invalid/,
  );
  expect(printed(error)).not.toContain(bad);
});

test("an error message does not contain a token that the server echoed", async () => {
  const repository = await world.repositoryWith({ a: "1" });
  world.server.options.intercept = (request, response) => {
    response.writeHead(403, { "content-type": "text/plain" });
    response.end(`no: ${request.headers.authorization} ${good}`);
    return true;
  };

  const error = await world.open(repository, { token: good }).catch((thrown) => thrown);

  expect(printed(error)).toContain("[secret]");
  expect(printed(error)).not.toContain(good);
  expect(printed(error)).not.toContain(Buffer.from(`x-access-token:${good}`).toString("base64"));
  world.server.options.intercept = undefined;
});

test("a cached base is not available to a token that the server rejects", async () => {
  const repository = await world.repositoryWith({ a: "1" });
  const { base } = await world.open(repository, { token: good });

  await expect(world.open(repository, { token: bad })).rejects.toThrow(/does not allow this app to read/);
  await expect(world.open(repository, { token: bad, at: base })).rejects.toThrow(/does not allow this app to read/);
});

test("the error for an address with credentials does not contain them", async () => {
  const source = { tenant: "1", url: `http://x:${bad}@127.0.0.1/o/r.git`, token: async () => undefined };
  const repository = await world.repositoryWith({ a: "1" });

  const error = await world.open(repository, { source }).catch((thrown) => thrown);

  expect(error).toBeInstanceOf(UserError);
  expect(printed(error)).not.toContain(bad);
});

function printed(error: Error): string {
  return [error.message, error.stack, JSON.stringify(error), String(error.cause), JSON.stringify(error.cause)].join(
    "\n",
  );
}
