import { expect, test } from "vitest";
import { readConfig } from "#config/config.ts";
import { Environment } from "#config/environment.ts";
import { privateKey } from "../support/test-github.ts";

const complete = { APP_ID: "7", PRIVATE_KEY: privateKey, WEBHOOK_SECRET: "a secret" };

test("three variables are enough; the others have defaults", () => {
  expect(readConfig(complete)).toMatchObject({
    app: { appId: 7, port: 3000, host: "localhost", webhookPath: "/api/github/webhooks", logLevel: "info" },
    github: { apiUrl: "https://api.github.com", repositories: undefined },
    database: { kind: "sqlite", path: "./data/golem-forge.db" },
    approvalTimeoutMs: 72 * 60 * 60_000,
    shutdownGraceMs: 20_000,
  });
});

test("an empty variable counts as not set", () => {
  expect(readConfig({ ...complete, PORT: "", LOG_LEVEL: "", GHE_HOST: "" }).app.port).toBe(3000);
  expect(() => readConfig({ ...complete, WEBHOOK_SECRET: "" })).toThrow("WEBHOOK_SECRET is not set");
});

test("the limits of the OS sandbox can be set", () => {
  const { executors } = readConfig({
    ...complete,
    GOLEM_FORGE_SANDBOX_MEMORY_MB: "4096",
    GOLEM_FORGE_SANDBOX_DISK_MB: "8192",
  });

  expect(executors.os).toMatchObject({ limits: { memoryMb: 4_096, diskMb: 8_192 } });
  expect(() => readConfig({ ...complete, GOLEM_FORGE_SANDBOX_DISK_MB: "100" })).toThrow("at least 1024");
});

test.each([
  ["as it is", privateKey],
  ["with its lines escaped", privateKey.replaceAll("\n", "\\n")],
  ["in base64", Buffer.from(privateKey).toString("base64")],
])("the private key may be given %s", (_, written) => {
  expect(readConfig({ ...complete, PRIVATE_KEY: written }).app.privateKey).toBe(privateKey.trim());
});

test("GHE_HOST sets the URL of the REST API", () => {
  const { github } = readConfig({ ...complete, GHE_HOST: "127.0.0.1:3333", GHE_PROTOCOL: "http" });

  expect(github.apiUrl).toBe("http://127.0.0.1:3333/api/v3");
});

test("run pages need GOLEM_FORGE_URL, and signing in needs the OAuth client", () => {
  const url = "https://Forge.example.com/";
  const client = { GITHUB_CLIENT_ID: "Iv1.a", GITHUB_CLIENT_SECRET: "a client's secret" };

  expect(readConfig({ ...complete, ...client }).page).toBeUndefined();
  expect(readConfig({ ...complete, GOLEM_FORGE_URL: url }).page).toEqual({
    url: "https://forge.example.com",
    signIn: undefined,
  });
  expect(readConfig({ ...complete, GOLEM_FORGE_URL: url, ...client }).page?.signIn?.clientId).toBe("Iv1.a");
  expect(readConfig({ ...complete, GOLEM_FORGE_URL: url, ...client }).secrets).toContain("a client's secret");
});

test("all invalid variables are reported at once, without their values", () => {
  const bad = {
    APP_ID: "my-app",
    PRIVATE_KEY: "-----BEGIN RSA PRIVATE KEY-----\nhunter2hunter2\n-----END RSA PRIVATE KEY-----",
    PORT: "99999",
    LOG_LEVEL: "loud",
    GHE_HOST: "https://hunter2@github.example.com/",
    GHE_PROTOCOL: "ftp",
    WEBHOOK_PATH: "hooks",
    WEBHOOK_PROXY_URL: "smee",
    GOLEM_FORGE_MODEL: "sk-hunter2-in-the-wrong-place",
    OPENAI_BASE_URL: "ftp://hunter2@host",
    DATABASE_URL: "postgres://user:hunter2#@host/db",
    GOLEM_FORGE_REPOSITORIES: "shop, blog",
    GOLEM_FORGE_APPROVAL_HOURS: "0",
    // A comment is accepted for a week, and must not be accepted again after its key was removed.
    GOLEM_FORGE_KEEP_DELIVERY_DAYS: "7",
    GOLEM_FORGE_RUNS_PER_HOUR: "10abc",
    GOLEM_FORGE_STOP_SECONDS: "-1",
    GOLEM_FORGE_STATUS_INTERVAL_MS: "1e9",
    GOLEM_FORGE_URL: "https://forge.example.com/hunter2",
  };

  const message = errorMessage(bad);

  const named = message.split("\n").map((line) => /^ {2}- (\w+) (must be|is) /.exec(line)?.[1]);
  expect(named.slice(1).sort()).toEqual(Object.keys(bad).sort());
  expect(message).toContain("- PORT must be a number from 0 to 65535");
  expect(message).toContain("- LOG_LEVEL must be one of trace, debug, info, warn, error, fatal, silent");
  expect(message).toContain("- GHE_HOST must be a host name without https:// and path, such as github.example.com");
  expect(message).toContain("- GOLEM_FORGE_APPROVAL_HOURS must be a number of hours, above 0 and at most 720");
  expect(message).not.toMatch(/undefined|hunter2/);
});

test.each([
  ["postgres://forge:hunter2hunter2@db.example.com:5432/forge?sslmode=verify-full", ["hunter2hunter2"]],
  ["postgresql://forge:hunter2%2Fhunter2@[::1]/forge", ["hunter2%2Fhunter2", "hunter2/hunter2"]],
  ["postgres:///forge?host=/run/postgresql&password=hunter2hunter2", ["hunter2hunter2"]],
  ["postgres://forge@db/forge", []],
])("the password of a PostgreSQL URL is a secret: %s", (url, passmessage) => {
  const { database, secrets } = readConfig({
    ...complete,
    DATABASE_URL: url,
    GOLEM_FORGE_REPOSITORY_RUNS_AT_ONCE: "3",
  });

  expect(database).toEqual({ kind: "postgres", url, runsPerRepository: 3 });
  expect(secrets).toEqual(expect.arrayContaining(passmessage));
});

test.each([
  "postgres://forge:hun#ter2@db/forge",
  "postgres://forge:100%@db/forge",
  "postgres://a b/c",
  "mysql://db/forge",
])("an invalid DATABASE_URL is rejected without printing it: %s", (url) => {
  const message = errorMessage({ DATABASE_URL: url });

  expect(message).toContain("- DATABASE_URL must be the path of a SQLite file");
  expect(message).toContain("or postgres://user:password@host:5432/database, with the password percent-encoded");
  expect(message).not.toContain(url);
});

test("a key file that cannot be read is reported with its path", () => {
  const message = errorMessage({ PRIVATE_KEY: "", PRIVATE_KEY_PATH: "/no/such/key.pem" });

  expect(message).toContain("The file in PRIVATE_KEY_PATH cannot be read: /no/such/key.pem");
});

const variables = Object.keys(Environment.shape) as (keyof typeof Environment.shape)[];

test.each(variables.filter((name) => /SECRET|TOKEN|PASSWORD|(?<!APP_)PRIVATE_KEY$|API_KEY/.test(name)))(
  "the value of %s is redacted",
  (name) => {
    const value = name === "PRIVATE_KEY" ? privateKey : `value-of-${name}`;

    expect(
      readConfig({ ...complete, GITHUB_CLIENT_ID: "Iv1.a", GITHUB_CLIENT_SECRET: "x".repeat(20), [name]: value })
        .secrets,
    ).toContain(value);
  },
);

test("variables that only an MCP server or a custom tool reads are redacted if they are named like secrets", () => {
  const { secrets } = readConfig({
    ...complete,
    LINEAR_TOKEN: "lin_api_0123",
    DB_PASSWORD: "changeme",
    HOME: "/home/bot/files",
  });

  expect(secrets).toContain("lin_api_0123");
  expect(secrets).not.toContain("changeme");
  expect(secrets).not.toContain("/home/bot/files");
});

test("passwords in URLs are redacted", () => {
  const { secrets } = readConfig({ ...complete, SEARXNG_URL: "https://bot:hunter2%20hunter2@search.example.com" });

  expect(secrets).toEqual(expect.arrayContaining(["hunter2%20hunter2", "hunter2 hunter2"]));
});

function errorMessage(environment: Record<string, string>): string {
  try {
    readConfig({ ...complete, ...environment });
  } catch (error) {
    return (error as Error).message;
  }
  return "";
}

test("a protocol that telemetry does not support is refused", () => {
  expect(() => readConfig({ ...complete, OTEL_EXPORTER_OTLP_PROTOCOL: "grpc" })).toThrow(
    "OTEL_EXPORTER_OTLP_PROTOCOL must be http/protobuf",
  );
});
