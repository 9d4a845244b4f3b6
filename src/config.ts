import { createPrivateKey } from "node:crypto";
import { readFileSync } from "node:fs";
import { z } from "zod";
import { UserError } from "#errors.ts";

/** Plain digits: `1e9` and `0x10` are slips more often than they are meant. */
const number = z
  .string()
  .regex(/^\d+(\.\d+)?$/)
  .transform(Number);
const whole = (least: number, most: number) => number.pipe(z.number().int().min(least).max(most));
const url = z.url({ protocol: /^https?$/ }).describe("an http or https address");
const origin = z
  .string()
  .refine((text) => URL.canParse(text) && /^https?:\/\/[^/]+\/$/.test(new URL(text).href) && !text.includes("@"))
  .transform((text) => new URL(text).origin)
  .describe("an http or https address without a path, such as https://forge.example.com");
const repositories = z
  .string()
  .regex(/^\s*[\w.-]+\/(\*|[\w.-]+)\s*(,\s*[\w.-]+\/(\*|[\w.-]+)\s*)*,?\s*$/)
  .describe("a list of owner/repo or owner/*, separated by commas");
const milliseconds = whole(0, 60 * 60_000).describe("a whole number of milliseconds, an hour at most");

/** The same, not needed, and described alike. */
function optional<T extends z.ZodType>(schema: T) {
  return schema.optional().describe(String(schema.description));
}

/** Every environment variable the product reads, with its default. Names as Probot and the AI SDK's providers know them. */
const Environment = z.object({
  APP_ID: z.string().regex(/^\d+$/).describe("the number on your GitHub App's settings page"),
  PRIVATE_KEY: z.string().optional(),
  PRIVATE_KEY_PATH: z.string().optional(),
  WEBHOOK_SECRET: z.string(),
  PORT: whole(0, 65_535).default(3000).describe("a number from 0 to 65535"),
  HOST: z.string().default("localhost"),
  WEBHOOK_PATH: z.string().startsWith("/").default("/api/github/webhooks").describe("a path that begins with /"),
  LOG_LEVEL: z.enum(["trace", "debug", "info", "warn", "error", "fatal", "silent"]).default("info"),
  GHE_HOST: z
    .string()
    .regex(/^(\[[0-9a-f:]+\]|[^\s/:@]+)(:\d{1,5})?$/i)
    .optional()
    .describe("a host without https:// and path, such as github.example.com"),
  GHE_PROTOCOL: z.enum(["http", "https"]).default("https"),
  WEBHOOK_PROXY_URL: optional(url),
  /** Where browsers find this app. Without it there are no run pages. */
  GOLEM_FORGE_URL: optional(origin),
  /** The App's own OAuth client: people sign in with it on run pages, to command from there. */
  GITHUB_CLIENT_ID: z.string().optional(),
  GITHUB_CLIENT_SECRET: z.string().optional(),

  GOLEM_FORGE_MODEL: z
    .string()
    .regex(/^[a-z][a-z0-9-]*:.+$/)
    .optional()
    .describe("provider:model, such as anthropic:claude-sonnet-4-5"),
  ANTHROPIC_API_KEY: z.string().optional(),
  ANTHROPIC_BASE_URL: optional(url),
  OPENAI_API_KEY: z.string().optional(),
  OPENAI_BASE_URL: optional(url),
  GOOGLE_GENERATIVE_AI_API_KEY: z.string().optional(),
  /** An OpenAI-compatible endpoint, such as a local model's; models are then `compatible:<name>`. */
  OPENAI_COMPATIBLE_BASE_URL: optional(url),
  OPENAI_COMPATIBLE_API_KEY: z.string().optional(),

  DATABASE_URL: z
    .string()
    .refine((text) => /^(file:|sqlite:|[./])/.test(text) || readPostgresUrl(text) !== undefined)
    .default("file:./data/golem-forge.db")
    .describe(
      "the path of a SQLite file, such as file:./data/golem-forge.db, or postgres://user:password@host:5432/database, with the password percent-encoded",
    ),

  /** The folder of the deployment's own workers; default: those that ship with it. */
  GOLEM_FORGE_WORKERS: z.string().optional(),
  /** Only these repositories, `owner/repo` or `owner/*`, separated by commas. Default: every one the App is installed on. */
  GOLEM_FORGE_REPOSITORIES: optional(repositories),
  /** Repositories whose own `tools.ts` may run, `owner/repo` or `owner/*`, separated by commas. Default: none. */
  GOLEM_FORGE_CUSTOM_TOOLS_FROM: optional(repositories),
  /** Hours until an unanswered approval expires. */
  GOLEM_FORGE_APPROVAL_HOURS: number
    .pipe(z.number().positive().max(720))
    .default(72)
    .describe("a number of hours above 0, 720 at most"),
  /** Runs one person may start in an hour. */
  GOLEM_FORGE_RUNS_PER_HOUR: whole(1, 1_000_000).default(20).describe("a whole number of 1 or more"),
  /** Seconds that work in hand gets after SIGTERM; what is not done by then goes on at the next start. */
  GOLEM_FORGE_STOP_SECONDS: whole(0, 3_600).default(20).describe("a whole number of seconds, 3600 at most"),
  /** Runs all people together may start in a repository in an hour. */
  GOLEM_FORGE_REPOSITORY_RUNS_PER_HOUR: whole(1, 1_000_000).default(100).describe("a whole number of 1 or more"),
  /** Runs of one repository that may be at work at once, over all replicas; PostgreSQL only. Default: any number. */
  GOLEM_FORGE_REPOSITORY_RUNS_AT_ONCE: optional(whole(1, 1_000_000).describe("a whole number of 1 or more")),
  /** Milliseconds between two edits of a status comment. */
  GOLEM_FORGE_STATUS_INTERVAL_MS: milliseconds.default(4_000).describe(String(milliseconds.description)),
  /** Milliseconds between two writes to GitHub. Default: the pace GitHub asks of its apps. Lower it only on a server without rate limits. */
  GOLEM_FORGE_WRITE_INTERVAL_MS: optional(milliseconds),

  /** `off` never runs code of a repository on this machine. */
  GOLEM_FORGE_SANDBOX: z.enum(["auto", "off"]).default("auto"),
  /** The uid of sandboxed code when this process is root; it must be nobody else's. */
  GOLEM_FORGE_SANDBOX_UID: optional(whole(1_000, 65_533).describe("a uid from 1000 to 65533")),
  /** Where copies of trees lie while code runs on them. Default: the system's folder for temporary files. */
  GOLEM_FORGE_SANDBOX_DIRECTORY: z.string().optional(),
  /** Folders of programs that sandboxed code may read beside those of /usr, separated by commas. */
  GOLEM_FORGE_SANDBOX_TOOL_PATHS: z.string().optional(),
  /** Megabytes all processes of one command may have together. */
  GOLEM_FORGE_SANDBOX_MEMORY_MB: optional(
    whole(1_024, 1_048_576).describe("a whole number of megabytes, at least 1024"),
  ),
  /** `host:port` of package registries with a private address, separated by commas. */
  GOLEM_FORGE_PRIVATE_REGISTRIES: z.string().optional(),
  /** A module whose `openSandbox` gives sandboxes of the AI SDK's kind. */
  GOLEM_FORGE_REMOTE_SANDBOX: z.string().optional(),
  /** `host:port` of the deployment's own network that workers may fetch from, separated by commas. */
  GOLEM_FORGE_WEB_PRIVATE_HOSTS: z.string().optional(),
  /** A search engine for web_search; the first that is set counts. */
  SEARXNG_URL: optional(url),
  BRAVE_API_KEY: z.string().optional(),
  TAVILY_API_KEY: z.string().optional(),
  EXA_API_KEY: z.string().optional(),
});

/** What means something on a person's own machine: what is wrong with the rest does not matter there. */
const LocalEnvironment = Environment.pick({
  GOLEM_FORGE_MODEL: true,
  ANTHROPIC_API_KEY: true,
  ANTHROPIC_BASE_URL: true,
  OPENAI_API_KEY: true,
  OPENAI_BASE_URL: true,
  GOOGLE_GENERATIVE_AI_API_KEY: true,
  OPENAI_COMPATIBLE_BASE_URL: true,
  OPENAI_COMPATIBLE_API_KEY: true,
  GOLEM_FORGE_WORKERS: true,
  GOLEM_FORGE_SANDBOX: true,
  GOLEM_FORGE_SANDBOX_UID: true,
  GOLEM_FORGE_SANDBOX_DIRECTORY: true,
  GOLEM_FORGE_SANDBOX_TOOL_PATHS: true,
  GOLEM_FORGE_SANDBOX_MEMORY_MB: true,
  GOLEM_FORGE_PRIVATE_REGISTRIES: true,
  GOLEM_FORGE_REMOTE_SANDBOX: true,
  GOLEM_FORGE_WEB_PRIVATE_HOSTS: true,
  SEARXNG_URL: true,
  BRAVE_API_KEY: true,
  TAVILY_API_KEY: true,
  EXA_API_KEY: true,
});
type LocalEnvironment = z.infer<typeof LocalEnvironment>;

export interface Config {
  app: {
    appId: number;
    privateKey: string;
    webhookSecret: string;
    port: number;
    host: string;
    webhookPath: string;
    webhookProxy: string | undefined;
    logLevel: z.infer<typeof Environment>["LOG_LEVEL"];
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
  approvalMs: number;
  /** How many runs may start in an hour. */
  runsPerHour: { person: number; repository: number };
  statusIntervalMs: number;
  stopMs: number;
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
    approvalMs: env.GOLEM_FORGE_APPROVAL_HOURS * 60 * 60_000,
    runsPerHour: { person: env.GOLEM_FORGE_RUNS_PER_HOUR, repository: env.GOLEM_FORGE_REPOSITORY_RUNS_PER_HOUR },
    statusIntervalMs: env.GOLEM_FORGE_STATUS_INTERVAL_MS,
    stopMs: env.GOLEM_FORGE_STOP_SECONDS * 1_000,
    executors: readExecutors(env),
    web: { privateHosts: listOf(env.GOLEM_FORGE_WEB_PRIVATE_HOSTS), search: readSearch(env) },
    secrets: secrets.filter((secret) => secret !== undefined),
  };
}

function readDatabase(env: z.infer<typeof Environment>): Config["database"] {
  const url = env.DATABASE_URL;
  if (readPostgresUrl(url))
    return { kind: "postgres", url, runsPerRepository: env.GOLEM_FORGE_REPOSITORY_RUNS_AT_ONCE };
  return { kind: "sqlite", path: url.replace(/^(file|sqlite):(\/\/)?/, "") };
}

const postgresUrl =
  /^postgres(?:ql)?:\/\/(?:[^:@/?#\s]*(?::(?<password>[^/?#\s]*))?@)?(?:\[[0-9a-f:]+\]|[^/?#:@\s]*)(?::\d{1,5})?(?:\/[^/?#\s]*)?(?:\?(?<query>[^#\s]*))?$/i;

/** The passwords in the address of a PostgreSQL database; undefined when it is none, or cannot be read. */
function readPostgresUrl(url: string): { passwords: string[] } | undefined {
  const found = postgresUrl.exec(url)?.groups;
  if (!found) return undefined;
  const { password, query } = found;
  const given = new URLSearchParams(query).get("password");
  try {
    const plain = password === undefined ? [] : [password, decodeURIComponent(password)];
    return { passwords: [...plain, ...(given === null ? [] : [given])] };
  } catch {
    return undefined;
  }
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

function readPage(env: z.infer<typeof Environment>): Config["page"] {
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
    return { pem: "", problem: `PRIVATE_KEY_PATH names a file that cannot be read: ${env.PRIVATE_KEY_PATH}` };
  }
}

function checkPem(text: string, name: string): { pem: string; problem?: string } {
  const plain = text.includes("-----BEGIN") ? text : Buffer.from(text, "base64").toString("utf8");
  const pem = plain.replaceAll("\\n", "\n").trim();
  try {
    createPrivateKey(pem);
    return { pem };
  } catch {
    return { pem: "", problem: `${name} is no private key that can be read: a PEM file, as it is or in base64` };
  }
}
