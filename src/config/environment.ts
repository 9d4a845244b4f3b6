import { z } from "zod";
import { readPostgresUrl } from "./read-postgres-url.ts";

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
export const Environment = z.object({
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
export type Environment = z.infer<typeof Environment>;

/** What means something on a person's own machine: what is wrong with the rest does not matter there. */
export const LocalEnvironment = Environment.pick({
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
export type LocalEnvironment = z.infer<typeof LocalEnvironment>;
