import type { z } from "zod";
import { UserError } from "#domain/errors.ts";
import { Environment, LocalEnvironment } from "./environment.ts";
import { readPostgresUrl } from "./read-postgres-url.ts";
import { readPrivateKey } from "./read-private-key.ts";

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
  /** Undefined where browsers do not reach this app. */
  page:
    | {
        /** An origin, without a slash at its end. */
        url: string;
        /** How people sign in; undefined where they only watch. */
        signIn: { clientId: string; clientSecret: string } | undefined;
      }
    | undefined;
  github: {
    /** Where people go: `https://github.com`, or the server. */
    webUrl: string;
    /** Where REST is: `https://api.github.com`, or `<server>/api/v3`. */
    apiUrl: string;
    writeIntervalMs: number | undefined;
    repositories: string[] | undefined;
  };
  models: {
    default: string | undefined;
    anthropic: { apiKey: string | undefined; baseUrl: string | undefined };
    openai: { apiKey: string | undefined; baseUrl: string | undefined };
    google: { apiKey: string | undefined };
    compatible: { apiKey: string | undefined; baseUrl: string | undefined };
  };
  database: { kind: "sqlite"; path: string } | { kind: "postgres"; url: string; runsPerRepository: number | undefined };
  workersDirectory: string | undefined;
  /** In lower case: `owner/repo` or `owner/*`. */
  customToolsFrom: string[];
  approvalTimeoutMs: number;
  /** How many runs may start in an hour. */
  runsPerHour: { person: number; repository: number };
  statusIntervalMs: number;
  shutdownGraceMs: number;
  /** Where commands of workers run. */
  executors: {
    os:
      | false
      | {
          uid: number | undefined;
          directory: string | undefined;
          toolPaths: string[];
          limits: { memoryMb?: number };
          privateRegistries: string[];
        };
    remote: { module: string } | undefined;
  };
  /** What workers may reach of the web beyond its public part. */
  web: {
    privateHosts: string[];
    search: { provider: "searxng"; url: string } | { provider: "brave" | "tavily" | "exa"; apiKey: string } | undefined;
  };
  /** Every secret value held, so that none leaves in a text. */
  secrets: string[];
}

/** Reads and checks the environment. Throws a UserError that names every problem at once, and never a secret's value. */
export function readConfig(environment: Record<string, string | undefined>): Config {
  const given = filled(environment);
  const parsed = Environment.safeParse(given);
  const problems = parsed.success ? [] : parsed.error.issues.map((issue) => describeProblem(issue, given));
  const key = readPrivateKey(given);
  if (key.problem) problems.push(key.problem);
  for (const [name, other] of [
    ["GITHUB_CLIENT_ID", "GITHUB_CLIENT_SECRET"],
    ["GITHUB_CLIENT_SECRET", "GITHUB_CLIENT_ID"],
  ] as const) {
    if (given[name] && !given[other]) problems.push(`${other} is not set, and ${name} is: people sign in with both`);
  }
  if (given.GOLEM_FORGE_REPOSITORY_RUNS_AT_ONCE !== undefined && !readPostgresUrl(given.DATABASE_URL ?? "")) {
    problems.push("GOLEM_FORGE_REPOSITORY_RUNS_AT_ONCE needs a PostgreSQL database: set DATABASE_URL to one");
  }
  if (!parsed.success || problems.length > 0) {
    throw new UserError(`Golem Forge cannot start:\n${problems.map((problem) => `  - ${problem}`).join("\n")}`);
  }

  const env = parsed.data;
  const secrets = [env.WEBHOOK_SECRET, key.pem, env.ANTHROPIC_API_KEY, env.OPENAI_API_KEY];
  secrets.push(env.GOOGLE_GENERATIVE_AI_API_KEY, env.OPENAI_COMPATIBLE_API_KEY);
  secrets.push(...(readPostgresUrl(env.DATABASE_URL)?.passwords ?? []));
  secrets.push(env.GITHUB_CLIENT_SECRET);
  secrets.push(env.BRAVE_API_KEY, env.TAVILY_API_KEY, env.EXA_API_KEY);
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
    github: {
      webUrl: env.GHE_HOST ? `${env.GHE_PROTOCOL}://${env.GHE_HOST}` : "https://github.com",
      apiUrl: env.GHE_HOST ? `${env.GHE_PROTOCOL}://${env.GHE_HOST}/api/v3` : "https://api.github.com",
      writeIntervalMs: env.GOLEM_FORGE_WRITE_INTERVAL_MS,
      repositories: env.GOLEM_FORGE_REPOSITORIES?.split(",").map((name) => name.trim().toLowerCase()),
    },
    models: readModels(env),
    database: readDatabase(env),
    workersDirectory: env.GOLEM_FORGE_WORKERS,
    customToolsFrom: (env.GOLEM_FORGE_CUSTOM_TOOLS_FROM ?? "").split(",").map((name) => name.trim().toLowerCase()),
    approvalTimeoutMs: env.GOLEM_FORGE_APPROVAL_HOURS * 60 * 60_000,
    runsPerHour: { person: env.GOLEM_FORGE_RUNS_PER_HOUR, repository: env.GOLEM_FORGE_REPOSITORY_RUNS_PER_HOUR },
    statusIntervalMs: env.GOLEM_FORGE_STATUS_INTERVAL_MS,
    shutdownGraceMs: env.GOLEM_FORGE_STOP_SECONDS * 1_000,
    executors: readExecutors(env),
    web: { privateHosts: listOf(env.GOLEM_FORGE_WEB_PRIVATE_HOSTS), search: readSearch(env) },
    secrets: secrets.filter((secret) => secret !== undefined),
  };
}

function readDatabase(env: Environment): Config["database"] {
  const url = env.DATABASE_URL;
  if (readPostgresUrl(url))
    return { kind: "postgres", url, runsPerRepository: env.GOLEM_FORGE_REPOSITORY_RUNS_AT_ONCE };
  return { kind: "sqlite", path: url.replace(/^(file|sqlite):(\/\/)?/, "") };
}

/** What a worker on a checkout of this machine needs of the environment. Throws a UserError that names every problem at once. */
export function readLocalConfig(
  environment: Record<string, string | undefined>,
): Pick<Config, "models" | "workersDirectory" | "executors" | "web"> {
  const given = filled(environment);
  const parsed = LocalEnvironment.safeParse(given);
  if (!parsed.success) {
    const problems = parsed.error.issues.map((issue) => describeProblem(issue, given));
    throw new UserError(`The environment is not right:\n${problems.map((problem) => `  - ${problem}`).join("\n")}`);
  }
  const env = parsed.data;
  return {
    models: readModels(env),
    workersDirectory: env.GOLEM_FORGE_WORKERS,
    executors: readExecutors(env),
    web: { privateHosts: listOf(env.GOLEM_FORGE_WEB_PRIVATE_HOSTS), search: readSearch(env) },
  };
}

function filled(environment: Record<string, string | undefined>): Record<string, string | undefined> {
  return Object.fromEntries(Object.entries(environment).filter(([, value]) => value !== undefined && value !== ""));
}

function readModels(env: LocalEnvironment): Config["models"] {
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

function readExecutors(env: LocalEnvironment): Config["executors"] {
  const memoryMb = env.GOLEM_FORGE_SANDBOX_MEMORY_MB;
  const os = {
    uid: env.GOLEM_FORGE_SANDBOX_UID,
    directory: env.GOLEM_FORGE_SANDBOX_DIRECTORY,
    toolPaths: listOf(env.GOLEM_FORGE_SANDBOX_TOOL_PATHS),
    limits: memoryMb === undefined ? {} : { memoryMb },
    privateRegistries: listOf(env.GOLEM_FORGE_PRIVATE_REGISTRIES),
  };
  return {
    os: env.GOLEM_FORGE_SANDBOX === "auto" && os,
    remote: env.GOLEM_FORGE_REMOTE_SANDBOX ? { module: env.GOLEM_FORGE_REMOTE_SANDBOX } : undefined,
  };
}

function readSearch(env: LocalEnvironment): Config["web"]["search"] {
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

/** Never quotes a value: it may be a secret in the wrong place. */
function describeProblem({ path, ...issue }: z.core.$ZodIssue, given: Record<string, unknown>): string {
  const name = String(path[0]) as keyof typeof Environment.shape;
  if (given[name] === undefined) return `${name} is not set`;
  if (issue.code === "invalid_value") return `${name} must be one of ${issue.values.join(", ")}`;
  return `${name} must be ${Environment.shape[name].description}`;
}
