import { z } from "zod";
import { didYouMean } from "#text/closest-match.ts";

/** Accepts plain digits only: `1e9` and `0x10` are more likely typos. */
const number = z
  .string()
  .regex(/^\d+(\.\d+)?$/)
  .transform(Number);
const integer = (min: number, max: number) => number.pipe(z.number().int().min(min).max(max));
const url = z.url({ protocol: /^https?$/ }).describe("an http or https URL");
const origin = z
  .string()
  .refine((text) => URL.canParse(text) && /^https?:\/\/[^/]+\/$/.test(new URL(text).href) && !text.includes("@"))
  .transform((text) => new URL(text).origin)
  .describe("an http or https URL without a path, such as https://forge.example.com");
const repositories = z
  .string()
  .regex(/^\s*[\w.-]+\/(\*|[\w.-]+)\s*(,\s*[\w.-]+\/(\*|[\w.-]+)\s*)*,?\s*$/)
  .describe("a comma-separated list of owner/repo or owner/*");
const milliseconds = integer(0, 60 * 60_000).describe("a whole number of milliseconds, at most 3600000 (one hour)");

/** Makes a schema optional and keeps its description. */
function optional<T extends z.ZodType>(schema: T) {
  return schema.optional().describe(String(schema.description));
}

/** The variables that hold secrets, and how to extract the secrets from a value. */
const secretVariables = z.registry<{ extract: (value: string) => string[] }>();

const wholeValue = { extract: (value: string) => [value] };

const optionalSecret = () => z.string().optional().register(secretVariables, wholeValue);

/** An optional URL, which may contain a password. */
const optionalUrl = () => optional(url).register(secretVariables, { extract: passwordsInUrl });

/** Headers of an exporter, whose values may be keys. */
const optionalHeaders = () =>
  z
    .string()
    .optional()
    .register(secretVariables, {
      extract: (value) =>
        value.split(",").flatMap((header) => withDecoded(header.slice(header.indexOf("=") + 1).trim())),
    });

function passwordsInUrl(value: string): string[] {
  return withDecoded(URL.canParse(value) ? new URL(value).password : "");
}

/** Returns a percent-encoded text as it is and decoded. */
function withDecoded(text: string): string[] {
  try {
    return [text, decodeURIComponent(text)];
  } catch {
    return [text];
  }
}

const samplers = [
  "always_on",
  "always_off",
  "traceidratio",
  "parentbased_always_on",
  "parentbased_always_off",
  "parentbased_traceidratio",
] as const;

/** Variables that are secrets by their names, such as the token of an MCP server. Short values are placeholders. */
const secretName = /(?:TOKEN|SECRET|PASSWORD|API_?KEY|ACCESS_?KEY|PRIVATE_?KEY)$/i;
const minOtherSecretLength = 12;

/** All secrets that the environment contains. */
export function secretsIn(environment: Record<string, string | undefined>): string[] {
  const own: Record<string, z.ZodType> = { ...Environment.shape, ...ActionEnvironment.shape };
  const found = Object.entries(environment).flatMap(([name, value = ""]) => {
    const schema = own[name];
    if (schema) return secretVariables.get(schema)?.extract(value) ?? [];
    return secretName.test(name) && value.length >= minOtherSecretLength ? [value] : [];
  });
  return found.filter((value) => value !== "");
}

/** The variables that are needed before an App is configured: the listening address and the GitHub in use. */
const serverVariables = {
  PORT: integer(0, 65_535).default(3000).describe("a number from 0 to 65535"),
  HOST: z.string().default("localhost"),
  WEBHOOK_PATH: z.string().startsWith("/").default("/api/github/webhooks").describe("a path that begins with /"),
  GHE_HOST: z
    .string()
    .regex(/^(\[[0-9a-f:]+\]|[^\s/:@]+)(:\d{1,5})?$/i)
    .optional()
    .describe("a host name without https:// and path, such as github.example.com"),
  GHE_PROTOCOL: z.enum(["http", "https"]).default("https"),
};

/** The variables of the App, and of the database and the pages of its server. */
const appVariables = {
  APP_ID: z
    .string()
    .regex(/^\d+$/)
    .describe("the App ID on your GitHub App's settings page, a number; the client ID goes into GITHUB_CLIENT_ID"),
  PRIVATE_KEY: optionalSecret(),
  PRIVATE_KEY_PATH: z.string().optional(),
  WEBHOOK_SECRET: z.string().register(secretVariables, wholeValue),
  WEBHOOK_PROXY_URL: optionalUrl(),
  /** The public URL of this server. Run pages are off without it. */
  GOLEM_FORGE_URL: optional(origin),
  /** The App's OAuth client. People sign in on run pages with it. */
  GITHUB_CLIENT_ID: z.string().optional(),
  GITHUB_CLIENT_SECRET: optionalSecret(),
  DATABASE_URL: z
    .string()
    .refine((text) => /^(file:|sqlite:|[./])/.test(text) || readPostgresUrl(text) !== undefined)
    .default("file:./data/golem-forge.db")
    .describe(
      "the path of a SQLite file, such as file:./data/golem-forge.db, or postgres://user:password@host:5432/database, with the password percent-encoded",
    )
    .register(secretVariables, { extract: (value) => readPostgresUrl(value)?.passwords ?? [] }),
  /** Concurrent runs per repository, across all replicas. Default: unlimited. */
  GOLEM_FORGE_REPOSITORY_RUNS_AT_ONCE: optional(integer(1, 1_000_000).describe("a whole number of 1 or more")),
};

const modelVariables = {
  GOLEM_FORGE_MODEL: z
    .string()
    .regex(/^[a-z][a-z0-9-]*:.+$/)
    .optional()
    .describe("provider:model, such as anthropic:claude-sonnet-4-5"),
  ANTHROPIC_API_KEY: optionalSecret(),
  ANTHROPIC_BASE_URL: optionalUrl(),
  OPENAI_API_KEY: optionalSecret(),
  OPENAI_BASE_URL: optionalUrl(),
  GOOGLE_GENERATIVE_AI_API_KEY: optionalSecret(),
  /** An OpenAI-compatible endpoint, such as a local model server. Its models are named `compatible:<name>`. */
  OPENAI_COMPATIBLE_BASE_URL: optionalUrl(),
  OPENAI_COMPATIBLE_API_KEY: optionalSecret(),
};

/** The variables that also apply on a developer's machine. */
const localVariables = {
  ...modelVariables,
  /** The folder of the deployment's workers. Default: the included workers. */
  GOLEM_FORGE_WORKERS: z.string().optional(),
  /** The file of the deployment's policy. Default: the built-in policy. */
  GOLEM_FORGE_POLICY: z.string().optional(),
  /** `off` never runs code of a repository on this machine. */
  GOLEM_FORGE_SANDBOX: z.enum(["auto", "off"]).default("auto"),
  /** The uid of sandboxed code if this process is root. No other process may use it. */
  GOLEM_FORGE_SANDBOX_UID: optional(integer(1_000, 65_533).describe("a uid from 1000 to 65533")),
  /** The folder for copies of repositories while code runs on them. Default: the system's temporary folder. */
  GOLEM_FORGE_SANDBOX_DIRECTORY: z.string().optional(),
  /** Additional program folders that sandboxed code may read, separated by commas. */
  GOLEM_FORGE_SANDBOX_TOOL_PATHS: z.string().optional(),
  /** Megabytes of memory for all processes of one command. */
  GOLEM_FORGE_SANDBOX_MEMORY_MB: optional(
    integer(1_024, 1_048_576).describe("a whole number of megabytes, at least 1024"),
  ),
  /** Megabytes on disk for the files of one session: the repository, its dependencies and what an installation needs meanwhile. */
  GOLEM_FORGE_SANDBOX_DISK_MB: optional(
    integer(1_024, 1_048_576).describe("a whole number of megabytes, at least 1024"),
  ),
  /** Package registries with a private address: `host:port`, separated by commas. */
  GOLEM_FORGE_PRIVATE_REGISTRIES: z.string().optional(),
  /** A module whose `openSandbox` opens AI SDK sandboxes. */
  GOLEM_FORGE_REMOTE_SANDBOX: z.string().optional(),
  /** Hosts in the private network that workers may fetch from: `host:port`, separated by commas. */
  GOLEM_FORGE_WEB_PRIVATE_HOSTS: z.string().optional(),
  /** Search engines for web_search. The first one that is set is used. */
  SEARXNG_URL: optionalUrl(),
  BRAVE_API_KEY: optionalSecret(),
  TAVILY_API_KEY: optionalSecret(),
  EXA_API_KEY: optionalSecret(),
};

/** The variables of every deployment: servers and jobs. */
const deploymentVariables = {
  LOG_LEVEL: z.enum(["trace", "debug", "info", "warn", "error", "fatal", "silent"]).default("info"),
  /** The repositories that are served. Default: all repositories on which the App is installed. */
  GOLEM_FORGE_REPOSITORIES: optional(repositories),
  GOLEM_FORGE_ALLOW_APP_COMMENTS: z
    .enum(["true", "false"])
    .default("false")
    .transform((text) => text === "true"),
  /** The repositories whose `tools.ts` may run. Default: none. */
  GOLEM_FORGE_CUSTOM_TOOLS_FROM: optional(repositories),
  /** Hours until an unanswered approval request expires. */
  GOLEM_FORGE_APPROVAL_HOURS: number
    .pipe(z.number().positive().max(720))
    .default(72)
    .describe("a number of hours, above 0 and at most 720"),
  /** Days to keep the log, files and approvals of a run after it has ended. Default: always. */
  GOLEM_FORGE_KEEP_RUN_DAYS: optional(
    number.pipe(z.number().positive().max(36_500)).describe("a number of days, above 0"),
  ),
  // Longer than events are accepted and schedules are stored in advance, a week each, and a day in which GitHub may not answer.
  /** Days in which a repeated delivery is recognized. Events older than a week are ignored in any case. */
  GOLEM_FORGE_KEEP_DELIVERY_DAYS: integer(9, 3_650).default(30).describe("a whole number of days, 9 or more"),
  /** Runs per person and hour. */
  GOLEM_FORGE_RUNS_PER_HOUR: integer(1, 1_000_000).default(20).describe("a whole number of 1 or more"),
  /** Seconds to finish work after SIGTERM. The rest is resumed at the next start. */
  GOLEM_FORGE_STOP_SECONDS: integer(0, 3_600).default(20).describe("a whole number of seconds, at most 3600"),
  /** Runs per repository and hour. */
  GOLEM_FORGE_REPOSITORY_RUNS_PER_HOUR: integer(1, 1_000_000).default(100).describe("a whole number of 1 or more"),
  /** Minimum milliseconds between two edits of a status comment. */
  GOLEM_FORGE_STATUS_INTERVAL_MS: milliseconds.default(4_000).describe(String(milliseconds.description)),
  /** Milliseconds between two writes to GitHub. Default: the pace that GitHub recommends. */
  GOLEM_FORGE_WRITE_INTERVAL_MS: optional(milliseconds),
  /** The token that a scrape of `/metrics` has to send as `Authorization: Bearer <token>`. Without it there is no `/metrics`. */
  GOLEM_FORGE_METRICS_TOKEN: optional(z.string().min(16).describe("a secret of at least 16 characters")).register(
    secretVariables,
    wholeValue,
  ),
  /** The OpenTelemetry collector that traces and metrics are sent to. Default: none are sent. */
  OTEL_EXPORTER_OTLP_ENDPOINT: optionalUrl(),
  OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: optionalUrl(),
  OTEL_EXPORTER_OTLP_METRICS_ENDPOINT: optionalUrl(),
  /** Headers for the collector, such as a key: `name=value`, separated by commas. */
  OTEL_EXPORTER_OTLP_HEADERS: optionalHeaders(),
  OTEL_EXPORTER_OTLP_TRACES_HEADERS: optionalHeaders(),
  OTEL_EXPORTER_OTLP_METRICS_HEADERS: optionalHeaders(),
  OTEL_EXPORTER_OTLP_PROTOCOL: z.enum(["http/protobuf"]).default("http/protobuf"),
  /** `none` sends no traces, `otlp` sends them to the collector on this machine if no endpoint is set. */
  OTEL_TRACES_EXPORTER: z.enum(["otlp", "none"]).optional(),
  OTEL_METRICS_EXPORTER: z.enum(["otlp", "none"]).optional(),
  OTEL_TRACES_SAMPLER: z.enum(samplers).default("parentbased_always_on"),
  /** The share of runs that are traced, for the samplers with `traceidratio`. */
  OTEL_TRACES_SAMPLER_ARG: number.pipe(z.number().min(0).max(1)).default(1).describe("a number from 0 to 1"),
  /** Milliseconds between two exports of traces. */
  OTEL_BSP_SCHEDULE_DELAY: integer(1, 3_600_000).default(5_000).describe("a whole number of milliseconds"),
  /** Milliseconds between two exports of metrics. */
  OTEL_METRIC_EXPORT_INTERVAL: integer(1, 3_600_000).default(60_000).describe("a whole number of milliseconds"),
  /** `true` turns traces and metrics off. */
  OTEL_SDK_DISABLED: z.enum(["true", "false"]).default("false"),
};

/** The environment variables of the server, with their defaults. The names follow Probot and the AI SDK's providers. */
export const Environment = z.object({ ...appVariables, ...serverVariables, ...localVariables, ...deploymentVariables });
export type Environment = z.infer<typeof Environment>;

/** The variables of models, which also apply to programs. */
export const ModelEnvironment = z.object(modelVariables);
export type ModelEnvironment = z.infer<typeof ModelEnvironment>;

/** The variables that apply on a developer's machine. The others are not validated there. */
export const LocalEnvironment = z.object(localVariables);
export type LocalEnvironment = z.infer<typeof LocalEnvironment>;

/** The variables of the listening address and of the GitHub in use. They are needed before an App is configured. */
export const ServerEnvironment = z.object(serverVariables);
export type ServerEnvironment = z.infer<typeof ServerEnvironment>;

/** The variables of a job of GitHub Actions. The runner sets those that begin with `GITHUB_`, but for the token. */
export const ActionEnvironment = z.object({
  ...localVariables,
  ...deploymentVariables,
  GITHUB_TOKEN: z.string().register(secretVariables, wholeValue),
  GITHUB_REPOSITORY: z
    .string()
    .regex(/^[\w.-]+\/[\w.-]+$/)
    .describe("owner/repo"),
  GITHUB_REPOSITORY_ID: z.string().regex(/^\d+$/).describe("a number"),
  GITHUB_REPOSITORY_OWNER_ID: z.string().regex(/^\d+$/).describe("a number"),
  GITHUB_EVENT_NAME: z.string(),
  GITHUB_EVENT_PATH: z.string(),
  GITHUB_RUN_ID: z.string().regex(/^\d+$/).describe("a number"),
  GITHUB_RUN_ATTEMPT: z.string().regex(/^\d+$/).describe("a number"),
  GITHUB_SERVER_URL: url.default("https://github.com").describe(String(url.description)),
  GITHUB_API_URL: url.default("https://api.github.com").describe(String(url.description)),
  GITHUB_JOB: z.string().default("golem-forge"),
  /** The secret that the saved runs are encrypted with. Default: the model's key. */
  GOLEM_FORGE_STATE_SECRET: optionalSecret(),
  /** Another job takes over when one that died has not renewed its lease for this many seconds. */
  GOLEM_FORGE_LEASE_SECONDS: integer(1, 3_600).default(60).describe("a whole number of seconds, at most 3600"),
});
export type ActionEnvironment = z.infer<typeof ActionEnvironment>;

/** Describes the variables that begin with `GOLEM_FORGE_` but are not settings, such as misspelled ones. */
export function describeUnknownSettings(environment: Record<string, string | undefined>): string[] {
  const known = Object.keys({ ...Environment.shape, ...ActionEnvironment.shape });
  const unknown = Object.keys(environment).filter((name) => /^GOLEM_FORGE_\w+$/.test(name) && !known.includes(name));
  return unknown.map((name) => {
    return `${name} is not a setting, so it has no effect.${didYouMean(name, known)}`;
  });
}

const postgresUrl =
  /^postgres(?:ql)?:\/\/(?:[^:@/?#\s]*(?::(?<password>[^/?#\s]*))?@)?(?:\[[0-9a-f:]+\]|[^/?#:@\s]*)(?::\d{1,5})?(?:\/[^/?#\s]*)?(?:\?(?<query>[^#\s]*))?$/i;

/** Extracts the passwords from a PostgreSQL connection URL. Returns undefined for other or malformed URLs. */
export function readPostgresUrl(url: string): { passwords: string[] } | undefined {
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
