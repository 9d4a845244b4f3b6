import { createPrivateKey } from "node:crypto";
import { readFileSync } from "node:fs";
import type { z } from "zod";
import { UserError } from "#domain/errors.ts";
import { dayMs, hourMs } from "#domain/work-context.ts";
import { type DeploymentPolicy, readDeploymentPolicy } from "./deployment-policy.ts";
import {
  ActionEnvironment,
  Environment,
  LocalEnvironment,
  ModelEnvironment,
  readPostgresUrl,
  ServerEnvironment,
  secretsIn,
} from "./environment.ts";

export interface Config {
  app: {
    appId: number;
    privateKey: string;
    webhookSecret: string;
    port: number;
    host: string;
    webhookPath: string;
    webhookProxy: string | undefined;
    logLevel: Environment["LOG_LEVEL"];
  };
  /** Undefined if run pages are off. */
  page:
    | {
        /** An origin, without a trailing slash. */
        url: string;
        /** The OAuth client; undefined if run pages are read-only. */
        signIn: { clientId: string; clientSecret: string } | undefined;
      }
    | undefined;
  github: {
    /** `https://github.com`, or the URL of the GitHub Enterprise Server. */
    webUrl: string;
    /** The URL of the REST API: `https://api.github.com`, or `<server>/api/v3`. */
    apiUrl: string;
    writeIntervalMs: number | undefined;
    repositories: string[] | undefined;
    /** Comments that another app posted with a person's token may start and steer workers. */
    allowAppComments: boolean;
  };
  models: {
    default: string | undefined;
    anthropic: { apiKey: string | undefined; baseUrl: string | undefined };
    openai: { apiKey: string | undefined; baseUrl: string | undefined };
    google: { apiKey: string | undefined };
    compatible: { apiKey: string | undefined; baseUrl: string | undefined };
  };
  database: ({ kind: "sqlite"; path: string } | { kind: "postgres"; url: string }) & {
    /** The maximum number of active runs per repository, over all replicas. Undefined: no limit. */
    runsPerRepository?: number | undefined;
  };
  workersDirectory: string | undefined;
  policy: DeploymentPolicy;
  /** `owner/repo` or `owner/*`, in lower case. */
  customToolsFrom: string[];
  approvalTimeoutMs: number;
  /** Retention times; `runMs` is undefined where the logs of all runs are kept. */
  retention: { runMs: number | undefined; deliveryMs: number };
  runsPerHour: { person: number; repository: number };
  statusIntervalMs: number;
  shutdownGraceMs: number;
  /** The environments that commands of workers may run in. */
  executors: {
    os:
      | false
      | {
          uid: number | undefined;
          directory: string | undefined;
          toolPaths: string[];
          limits: { memoryMb?: number; diskMb?: number };
          privateRegistries: string[];
        };
    remote: { module: string } | undefined;
  };
  /** Web access of workers beyond public pages. */
  web: {
    privateHosts: string[];
    search: { provider: "searxng"; url: string } | { provider: "brave" | "tavily" | "exa"; apiKey: string } | undefined;
  };
  telemetry: TelemetryConfig;
  /** All secret values, to be redacted from every text. */
  secrets: string[];
}

/** The configuration of telemetry. The exporters read the other variables of OpenTelemetry themselves. */
export interface TelemetryConfig {
  /** The token of `/metrics`; undefined if there is no such endpoint. */
  metricsToken: string | undefined;
  /** Traces are exported over OTLP. */
  traces: { sampler: Environment["OTEL_TRACES_SAMPLER"]; ratio: number; intervalMs: number } | undefined;
  /** Metrics are exported over OTLP. */
  metrics: { intervalMs: number } | undefined;
}

/** Reads the server's environment. Throws a UserError that lists all problems and never contains a secret. */
export function readConfig(environment: Record<string, string | undefined>): Config {
  const given = withoutEmpty(environment);
  const parsed = Environment.safeParse(given);
  const key = readPrivateKey(given);
  const problems = parsed.success ? [] : parsed.error.issues.map((issue) => describeProblem(issue, given));
  if (key.problem) problems.push(key.problem);
  problems.push(...findConflicts(given));
  if (!parsed.success || problems.length > 0) {
    throw new UserError(`Golem Forge cannot start:\n${problems.map((problem) => `  - ${problem}`).join("\n")}`);
  }

  const env = parsed.data;
  return {
    app: {
      appId: Number(env.APP_ID),
      privateKey: key.pem,
      webhookSecret: env.WEBHOOK_SECRET,
      port: env.PORT,
      host: env.HOST,
      webhookPath: env.WEBHOOK_PATH,
      webhookProxy: env.WEBHOOK_PROXY_URL,
      logLevel: env.LOG_LEVEL,
    },
    page: readPage(env),
    ...readDeployment(env, gitHubUrls(env)),
    database: readDatabase(env),
    telemetry: readTelemetry(env),
    secrets: [...secretsIn(given), key.pem],
  };
}

/** The configuration that a server and a job of GitHub Actions share. */
export type DeploymentConfig = Omit<Config, "app" | "page" | "database" | "telemetry">;

function readDeployment(
  env: ActionEnvironment | Environment,
  urls: Pick<Config["github"], "webUrl" | "apiUrl">,
): Omit<DeploymentConfig, "secrets"> {
  return {
    github: {
      ...urls,
      writeIntervalMs: env.GOLEM_FORGE_WRITE_INTERVAL_MS,
      repositories: env.GOLEM_FORGE_REPOSITORIES?.split(",").map((name) => name.trim().toLowerCase()),
      allowAppComments: env.GOLEM_FORGE_ALLOW_APP_COMMENTS,
    },
    models: readModels(env),
    workersDirectory: env.GOLEM_FORGE_WORKERS,
    policy: readDeploymentPolicy(env.GOLEM_FORGE_POLICY),
    customToolsFrom: (env.GOLEM_FORGE_CUSTOM_TOOLS_FROM ?? "").split(",").map((name) => name.trim().toLowerCase()),
    approvalTimeoutMs: env.GOLEM_FORGE_APPROVAL_HOURS * hourMs,
    retention: {
      runMs: env.GOLEM_FORGE_KEEP_RUN_DAYS && env.GOLEM_FORGE_KEEP_RUN_DAYS * dayMs,
      deliveryMs: env.GOLEM_FORGE_KEEP_DELIVERY_DAYS * dayMs,
    },
    runsPerHour: { person: env.GOLEM_FORGE_RUNS_PER_HOUR, repository: env.GOLEM_FORGE_REPOSITORY_RUNS_PER_HOUR },
    statusIntervalMs: env.GOLEM_FORGE_STATUS_INTERVAL_MS,
    shutdownGraceMs: env.GOLEM_FORGE_STOP_SECONDS * 1_000,
    executors: readExecutors(env),
    web: readWeb(env),
  };
}

export interface ActionConfig extends DeploymentConfig {
  logLevel: Environment["LOG_LEVEL"];
  /** The job and its event, as the runner describes them. */
  job: {
    token: string;
    owner: string;
    repo: string;
    repositoryId: number;
    ownerId: number;
    /** The job's id in the workflow, which is the name of its check. */
    name: string;
    runId: number;
    attempt: number;
    eventName: string;
    /** The file with the webhook's payload. */
    eventPath: string;
  };
  state: { secret: string; leaseMs: number };
}

/** Reads the environment of a job of GitHub Actions. Throws a UserError that lists all problems and never contains a secret. */
export function readActionConfig(environment: Record<string, string | undefined>): ActionConfig {
  const given = withoutEmpty(environment);
  const env = parseEnvironment(ActionEnvironment, given);
  const [owner = "", repo = ""] = env.GITHUB_REPOSITORY.split("/");
  const models = readModels(env);
  const { anthropic, openai, google, compatible } = models;
  const modelKey = anthropic.apiKey ?? openai.apiKey ?? google.apiKey ?? compatible.apiKey;
  const secret = env.GOLEM_FORGE_STATE_SECRET ?? modelKey;
  if (secret === undefined) {
    throw new UserError(
      "The environment is not valid:\n  - No model API key is set. Add it to the secrets of the repository (Settings → Secrets and variables → Actions) and to env: in the workflow, or set GOLEM_FORGE_STATE_SECRET for a model without a key",
    );
  }
  return {
    ...readDeployment(env, { webUrl: env.GITHUB_SERVER_URL, apiUrl: env.GITHUB_API_URL }),
    secrets: secretsIn(given),
    logLevel: env.LOG_LEVEL,
    job: {
      token: env.GITHUB_TOKEN,
      owner,
      repo,
      repositoryId: Number(env.GITHUB_REPOSITORY_ID),
      ownerId: Number(env.GITHUB_REPOSITORY_OWNER_ID),
      name: env.GITHUB_JOB,
      runId: Number(env.GITHUB_RUN_ID),
      attempt: Number(env.GITHUB_RUN_ATTEMPT),
      eventName: env.GITHUB_EVENT_NAME,
      eventPath: env.GITHUB_EVENT_PATH,
    },
    state: { secret, leaseMs: env.GOLEM_FORGE_LEASE_SECONDS * 1_000 },
  };
}

/** Returns problems with combinations of variables. */
function findConflicts(given: Record<string, string | undefined>): string[] {
  const problems: string[] = [];
  for (const [name, other] of [
    ["GITHUB_CLIENT_ID", "GITHUB_CLIENT_SECRET"],
    ["GITHUB_CLIENT_SECRET", "GITHUB_CLIENT_ID"],
  ] as const) {
    if (given[name] && !given[other]) problems.push(`${other} is not set, but ${name} is: signing in needs both`);
  }
  return problems;
}

function readDatabase(env: Environment): Config["database"] {
  const { DATABASE_URL: url, GOLEM_FORGE_REPOSITORY_RUNS_AT_ONCE: runsPerRepository } = env;
  if (readPostgresUrl(url)) return { kind: "postgres", url, runsPerRepository };
  return { kind: "sqlite", path: url.replace(/^(file|sqlite):(\/\/)?/, ""), runsPerRepository };
}

/** Reads a developer's environment. Throws a UserError that lists all problems and contains no secret. */
export function readLocalConfig(
  environment: Record<string, string | undefined>,
): Pick<Config, "models" | "workersDirectory" | "executors" | "policy" | "web" | "secrets"> {
  const given = withoutEmpty(environment);
  const env = parseEnvironment(LocalEnvironment, given);
  return {
    models: readModels(env),
    workersDirectory: env.GOLEM_FORGE_WORKERS,
    executors: readExecutors(env),
    policy: readDeploymentPolicy(env.GOLEM_FORGE_POLICY),
    web: readWeb(env),
    secrets: secretsIn(given),
  };
}

/** The address on which the server listens, and the GitHub it works with. */
export type ServerAddress = Pick<Config["app"], "host" | "port" | "webhookPath"> &
  Pick<Config["github"], "webUrl" | "apiUrl">;

/** Reads the settings that do not need a registered App. Throws a UserError that lists all problems. */
export function readServerAddress(environment: Record<string, string | undefined>): ServerAddress {
  const env = parseEnvironment(ServerEnvironment, withoutEmpty(environment));
  return { host: env.HOST, port: env.PORT, webhookPath: env.WEBHOOK_PATH, ...gitHubUrls(env) };
}

function gitHubUrls({ GHE_HOST, GHE_PROTOCOL }: ServerEnvironment): Pick<Config["github"], "webUrl" | "apiUrl"> {
  if (GHE_HOST === undefined) return { webUrl: "https://github.com", apiUrl: "https://api.github.com" };
  const webUrl = `${GHE_PROTOCOL}://${GHE_HOST}`;
  return { webUrl, apiUrl: `${webUrl}/api/v3` };
}

function parseEnvironment<T>(schema: z.ZodType<T>, given: Record<string, string | undefined>): T {
  const parsed = schema.safeParse(given);
  if (parsed.success) return parsed.data;
  const problems = parsed.error.issues.map((issue) => `  - ${describeProblem(issue, given)}`);
  throw new UserError(`The environment is not valid:\n${problems.join("\n")}`);
}

/** True if a list of `owner/repo` and `owner/*`, all in lower case, contains the repository. */
export function isListedRepository(list: readonly string[], owner: string, repo: string): boolean {
  return list.includes(`${owner}/${repo}`.toLowerCase()) || list.includes(`${owner}/*`.toLowerCase());
}

function withoutEmpty(environment: Record<string, string | undefined>): Record<string, string | undefined> {
  return Object.fromEntries(Object.entries(environment).filter(([, value]) => value !== undefined && value !== ""));
}

/** Reads the settings of models. Throws a UserError that lists all problems. */
export function readModelSettings(environment: Record<string, string | undefined>): Config["models"] {
  return readModels(parseEnvironment(ModelEnvironment, withoutEmpty(environment)));
}

function readModels(env: ModelEnvironment): Config["models"] {
  return {
    default: env.GOLEM_FORGE_MODEL,
    anthropic: { apiKey: env.ANTHROPIC_API_KEY, baseUrl: env.ANTHROPIC_BASE_URL },
    openai: { apiKey: env.OPENAI_API_KEY, baseUrl: env.OPENAI_BASE_URL },
    google: { apiKey: env.GOOGLE_GENERATIVE_AI_API_KEY },
    compatible: { apiKey: env.OPENAI_COMPATIBLE_API_KEY, baseUrl: env.OPENAI_COMPATIBLE_BASE_URL },
  };
}

function readPage(env: Environment): Config["page"] {
  const { GOLEM_FORGE_URL: url, GITHUB_CLIENT_ID: clientId, GITHUB_CLIENT_SECRET: clientSecret } = env;
  if (url === undefined) return undefined;
  return { url, signIn: clientId && clientSecret ? { clientId, clientSecret } : undefined };
}

function readTelemetry(env: Environment): TelemetryConfig {
  const isExported = (exporter: "otlp" | "none" | undefined, endpoint: string | undefined) =>
    env.OTEL_SDK_DISABLED === "false" &&
    (exporter ?? (endpoint !== undefined || env.OTEL_EXPORTER_OTLP_ENDPOINT !== undefined ? "otlp" : "none")) ===
      "otlp";
  const traces = isExported(env.OTEL_TRACES_EXPORTER, env.OTEL_EXPORTER_OTLP_TRACES_ENDPOINT);
  const metrics = isExported(env.OTEL_METRICS_EXPORTER, env.OTEL_EXPORTER_OTLP_METRICS_ENDPOINT);
  return {
    metricsToken: env.GOLEM_FORGE_METRICS_TOKEN,
    traces: traces
      ? {
          sampler: env.OTEL_TRACES_SAMPLER,
          ratio: env.OTEL_TRACES_SAMPLER_ARG,
          intervalMs: env.OTEL_BSP_SCHEDULE_DELAY,
        }
      : undefined,
    metrics: metrics ? { intervalMs: env.OTEL_METRIC_EXPORT_INTERVAL } : undefined,
  };
}

function readExecutors(env: LocalEnvironment | ActionEnvironment): Config["executors"] {
  const { GOLEM_FORGE_SANDBOX_MEMORY_MB: memoryMb, GOLEM_FORGE_SANDBOX_DISK_MB: diskMb } = env;
  const os = {
    uid: env.GOLEM_FORGE_SANDBOX_UID,
    directory: env.GOLEM_FORGE_SANDBOX_DIRECTORY,
    toolPaths: listOf(env.GOLEM_FORGE_SANDBOX_TOOL_PATHS),
    limits: { ...(memoryMb !== undefined && { memoryMb }), ...(diskMb !== undefined && { diskMb }) },
    privateRegistries: listOf(env.GOLEM_FORGE_PRIVATE_REGISTRIES),
  };
  return {
    os: env.GOLEM_FORGE_SANDBOX === "auto" && os,
    remote: env.GOLEM_FORGE_REMOTE_SANDBOX ? { module: env.GOLEM_FORGE_REMOTE_SANDBOX } : undefined,
  };
}

function readWeb(env: LocalEnvironment | ActionEnvironment): Config["web"] {
  return { privateHosts: listOf(env.GOLEM_FORGE_WEB_PRIVATE_HOSTS), search: readSearch(env) };
}

function readSearch(env: LocalEnvironment | ActionEnvironment): Config["web"]["search"] {
  if (env.SEARXNG_URL) return { provider: "searxng", url: env.SEARXNG_URL };
  if (env.BRAVE_API_KEY) return { provider: "brave", apiKey: env.BRAVE_API_KEY };
  if (env.TAVILY_API_KEY) return { provider: "tavily", apiKey: env.TAVILY_API_KEY };
  return env.EXA_API_KEY ? { provider: "exa", apiKey: env.EXA_API_KEY } : undefined;
}

function listOf(text: string | undefined): string[] {
  return (text ?? "")
    .split(",")
    .map((item) => item.trim())
    .filter((item) => item !== "");
}

/** Never quotes the value, which may be a misplaced secret. */
function describeProblem({ path, ...issue }: z.core.$ZodIssue, given: Record<string, unknown>): string {
  const shape = { ...Environment.shape, ...ActionEnvironment.shape };
  const name = String(path[0]) as keyof typeof shape;
  if (given[name] === undefined) return `${name} is not set`;
  if (issue.code === "invalid_value") {
    return `${name} must be ${issue.values.length > 1 ? "one of " : ""}${issue.values.join(", ")}`;
  }
  return `${name} must be ${shape[name].description}`;
}

/** Reads the App's private key from PRIVATE_KEY or from the file PRIVATE_KEY_PATH. Returns a problem if there is no valid key. */
function readPrivateKey(env: Record<string, string | undefined>): { pem: string; problem?: string } {
  if (env.PRIVATE_KEY) return checkPem(env.PRIVATE_KEY, "PRIVATE_KEY");
  if (!env.PRIVATE_KEY_PATH) {
    return {
      pem: "",
      problem: "PRIVATE_KEY or PRIVATE_KEY_PATH is not set: download a key on your GitHub App's settings page",
    };
  }
  try {
    return checkPem(readFileSync(env.PRIVATE_KEY_PATH, "utf8"), "PRIVATE_KEY_PATH");
  } catch {
    return { pem: "", problem: `The file in PRIVATE_KEY_PATH cannot be read: ${env.PRIVATE_KEY_PATH}` };
  }
}

function checkPem(text: string, name: string): { pem: string; problem?: string } {
  const plain = text.includes("-----BEGIN") ? text : Buffer.from(text, "base64").toString("utf8");
  const pem = plain.replaceAll("\\n", "\n").trim();
  // A stale OpenSSL error of an earlier operation can make the first attempt fail.
  if (isKey(pem) || isKey(pem)) return { pem };
  return {
    pem: "",
    problem: `${name} is not a valid private key: expected the RSA key that GitHub generated, as PEM or PEM in base64, without a passphrase`,
  };
}

function isKey(pem: string): boolean {
  try {
    // GitHub's keys are RSA; a token signed with another kind cannot be made.
    return createPrivateKey(pem).asymmetricKeyType === "rsa";
  } catch {
    return false;
  }
}
