import { setTimeout as pause } from "node:timers/promises";
import { isDeepStrictEqual } from "node:util";
import { SerialQueue } from "#domain/async-work.ts";
import { actionRepository, startActionWorld } from "./action-world.ts";
import { fixScript, playFix, whatGitHubHolds } from "./fix-story.ts";
import { type Forge, type Replica, startForge } from "./forge-world.ts";
import { type PostgresServer, restartPostgresServer } from "./postgres-server.ts";

/**
 * The moment of a fault: milliseconds after the app has sent GitHub that many requests since the fault before. Requests rather
 * than a time alone, so that faults hit the stories however fast the machine is.
 */
interface Moment {
  afterRequests: number;
  afterMs: number;
}

/** A fault injected while the stories are played. */
export type Fault = Moment &
  (
    | { kind: "kill"; replica: number }
    | { kind: "freeze"; replica: number; forMs: number }
    /** The clock of a process is set forward; the next time, it is set back to before the correct time. */
    | { kind: "clock"; replica: number }
    /** A process that runs the previous version is replaced by one of this version. */
    | { kind: "upgrade"; replica: number; signal: "SIGTERM" | "SIGKILL" }
    | { kind: "restart"; mode: "fast" | "immediate"; forMs: number }
  );

/** The result of a schedule. */
export interface Played {
  /** How the content of GitHub differs from that after a run without faults; undefined if it does not. */
  problem: string | undefined;
  /** The number of faults that happened before the stories ended. */
  injected: number;
}

export interface CrashSchedule {
  seed: number;
  /** `git` means jobs of the GitHub Action, whose store is a ref of the repository. */
  database: "sqlite" | "postgres" | "git";
  /** The number of processes that share the database, or of jobs that may run at the same time. */
  replicas: number;
  /** For each issue, the number of requests after the start of the story before it at which its story starts. */
  stories: number[];
  /** The distance by which clocks are set forward or back. */
  clockJumpMs: number;
  faults: Fault[];
}

/** The surroundings of a schedule: a PostgreSQL database, and its server if the schedule restarts it. */
export interface CrashDatabase {
  previous?: PreviousVersion | undefined;
  url?: string;
  server?: CrashServer;
}

/** The version that all processes run until they are upgraded. */
export interface PreviousVersion {
  /** Its `src/main.ts`. */
  program: string;
  /** The content of GitHub after a run of that version without faults. */
  expected: unknown;
}

export interface CrashServer {
  folder: string;
  server: PostgresServer;
}

const shiftClock = new URL("./shift-clock.ts", import.meta.url).href;
const databaseSignals = { fast: "SIGINT", immediate: "SIGQUIT" } as const;
/**
 * Longer than a story takes on a busy machine, where GitHub gives up a delivery that is not answered within ten seconds: the app
 * requests it again within ten minutes.
 */
const storyTimeoutMs = 12 * 60_000;
/** The time after the last fault within which GitHub must have the same content as after a run without faults. */
const settleMs = 15_000;
/**
 * Starting processes takes most of the CPU time of a story that is played alone. Stories that are played at the same time take a
 * fifth of that time each, and each fault hits all of them, each at another moment.
 */
const maxStories = 12;
/** A story takes about 30 requests. */
const maxRequests = 25;
/** For each story that is played at the same time. */
const maxMoreRequests = 12;
/** A story that starts after fewer requests than each story takes does so however fast the others are. */
const maxRequestsBeforeNext = 20;
/** A request is often followed by a commit and a model call. */
const maxDelayMs = 150;

/** Returns the schedule of a seed. The same seed and options always give the same schedule. */
export function scheduleOf(
  seed: number,
  databases: readonly CrashSchedule["database"][],
  { clocks = false, upgrades = false } = {},
): CrashSchedule {
  const random = randomNumbers(seed);
  const upTo = (max: number) => Math.floor(random() * max);
  const database = databases[upTo(databases.length)] ?? "sqlite";
  const replicas = { sqlite: 1, postgres: 2 + upTo(2), git: 1 + upTo(2) }[database];
  const stories = Array.from({ length: 1 + upTo(maxStories) }, (_, index) =>
    index === 0 ? 0 : upTo(maxRequestsBeforeNext),
  );
  const count = stories.length === 1 ? 1 + upTo(3) : 1 + upTo(5);
  const faults = Array.from({ length: count }, () =>
    faultOf({ random, database, replicas, stories: stories.length, clocks }),
  );
  const clockJumpMs = (random() < 0.5 ? 5 : 60) * 60_000;
  if (upgrades && database !== "git") {
    for (let replica = 0; replica < replicas; replica += 1) {
      const signal = random() < 0.5 ? "SIGTERM" : "SIGKILL";
      const upgrade = { kind: "upgrade", ...momentOf(upTo, stories.length), replica, signal } as const;
      faults.splice(upTo(faults.length + 1), 0, upgrade);
    }
  }
  return { seed, database, replicas, stories, clockJumpMs, faults };
}

function momentOf(upTo: (max: number) => number, stories: number): Moment {
  // Half of them are within 20 ms, in which a response is stored.
  const afterMs = Math.floor((upTo(1_000) / 1_000) ** 3 * maxDelayMs);
  return { afterRequests: upTo(maxRequests + (stories - 1) * maxMoreRequests), afterMs };
}

function faultOf({
  random,
  database,
  replicas,
  stories,
  clocks,
}: Pick<CrashSchedule, "database" | "replicas"> & {
  random: () => number;
  stories: number;
  clocks: boolean;
}): Fault {
  const upTo = (max: number) => Math.floor(random() * max);
  const kinds: Exclude<Fault["kind"], "upgrade">[] = ["kill", "freeze"];
  if (database === "postgres") kinds.push("restart");
  if (clocks && database !== "git") kinds.push("clock");
  const kind = kinds[upTo(kinds.length)] ?? "kill";
  const moment = momentOf(upTo, stories);
  const replica = upTo(replicas);
  // When a replica sends no heartbeat for ten seconds, another one takes over its runs.
  const isLong = random() < 0.3;
  switch (kind) {
    case "kill":
    case "clock":
      return { kind, ...moment, replica };
    case "freeze":
      return {
        kind,
        ...moment,
        replica,
        forMs: isLong && database !== "sqlite" ? 12_000 + upTo(16_000) : upTo(3_000),
      };
    case "restart":
      return {
        kind,
        ...moment,
        mode: random() < 0.5 ? "fast" : "immediate",
        forMs: isLong ? upTo(8_000) : upTo(1_000),
      };
  }
}

/** Plays one story without faults, with this version or another `src/main.ts`, and returns what GitHub has of it in the end. */
export async function playUndisturbed(database: CrashSchedule["database"], program?: string): Promise<unknown> {
  if (database === "git") {
    const world = await startActionWorld({ script: fixScript });
    try {
      return await playFix(world);
    } finally {
      await world.close();
    }
  }
  const forge = await startForge({ script: fixScript });
  try {
    const { url } = await forge.startReplica({}, program);
    forge.github.webhook = { url: `${url}/api/github/webhooks`, secret: forge.webhookSecret };
    return await playFix(forge);
  } finally {
    await forge.close();
  }
}

/** Plays the stories from /run to the answer while injecting the faults. Killed processes are restarted. */
export async function playSchedule(
  schedule: CrashSchedule,
  expected: unknown,
  { url, server, previous }: CrashDatabase = {},
): Promise<Played> {
  if (schedule.database === "git") return playJobs(schedule, expected);
  const environment: Record<string, string> = {
    GOLEM_FORGE_STOP_SECONDS: "0",
    CLOCK_JUMP_MS: String(schedule.clockJumpMs),
  };
  if (url !== undefined) environment.DATABASE_URL = url;
  const nodeOptions = schedule.faults.some(({ kind }) => kind === "clock") ? ["--import", shiftClock] : [];
  const forge = await startForge({ script: fixScript, timeoutMs: storyTimeoutMs, environment, nodeOptions });
  const cluster = new Cluster(forge, server);
  const story = new StoryProgress(forge.github);
  try {
    await cluster.start(schedule.replicas, previous?.program);
    const faults = cluster.inject(schedule.faults, story);
    // The error is reported once the stories have ended.
    faults.catch(() => undefined);
    const issues = await playStories(forge, schedule, story).catch((error: Error) => {
      throw new Error(`${error.message}\nThe app printed:\n${forge.printed().slice(-4_000)}`);
    });
    story.end();
    await faults;
    const problem = cluster.findEnded() ?? (await findDifference(forge, issues, expected, previous));
    return { problem, injected: story.injected };
  } catch (error) {
    return { problem: String(error), injected: story.injected };
  } finally {
    story.end();
    await cluster.close();
  }
}

/** Plays the stories, and returns the numbers of their issues. */
async function playStories(
  forge: Pick<Forge, "github" | "botComment">,
  { stories }: CrashSchedule,
  progress: StoryProgress,
): Promise<number[]> {
  const played: Promise<number>[] = [];
  const play = async () => {
    const issue = forge.github
      .as("visitor")
      .openIssue({ title: "The total is one too high", body: "Two items give 3." });
    await playFix(forge, issue);
    return issue.number;
  };
  for (const requests of stories) {
    if (played.length > 0) await Promise.race([progress.afterRequests(requests), Promise.all(played)]);
    const playing = play();
    // The error is reported once all have started.
    playing.catch(() => undefined);
    played.push(playing);
  }
  return Promise.all(played);
}

/**
 * Plays the stories with jobs of the GitHub Action. GitHub does not restart a killed job, so a scheduled job has to
 * continue its work.
 */
async function playJobs(schedule: CrashSchedule, expected: unknown): Promise<Played> {
  const environment = { GOLEM_FORGE_LEASE_SECONDS: "6", GOLEM_FORGE_STOP_SECONDS: "0" };
  const world = await startActionWorld({
    script: fixScript,
    environment,
    parallel: schedule.replicas,
    timeoutMs: storyTimeoutMs,
  });
  const { runner } = world;
  const story = new StoryProgress(world.github);
  const inject = async () => {
    for (const fault of schedule.faults) {
      if (!(await story.reaches(fault))) return;
      const job = await runner.nextStarted(() => story.hasEnded);
      if (!job) return;
      if (fault.kind === "freeze") {
        job.kill("SIGSTOP");
        await pause(fault.forMs);
        job.kill("SIGCONT");
      } else job.kill("SIGKILL");
      await runner.triggerSchedule(actionRepository);
    }
  };
  const injecting = inject();
  try {
    const issues = await playStories(world, schedule, story).catch((error: Error) => {
      throw new Error(`${error.message}\nThe jobs printed:\n${world.printed().slice(-8_000)}`);
    });
    story.end();
    await injecting;
    return { problem: await findDifference(world, issues, expected), injected: story.injected };
  } catch (error) {
    return { problem: String(error), injected: story.injected };
  } finally {
    story.end();
    await world.close();
  }
}

/** Follows the stories by the requests of the app to GitHub. */
class StoryProgress {
  readonly #github: Forge["github"];
  readonly #ended = Promise.withResolvers<void>();
  #hasEnded = false;
  #injected = 0;

  constructor(github: Forge["github"]) {
    this.#github = github;
  }

  get hasEnded(): boolean {
    return this.#hasEnded;
  }

  /** The number of moments that were reached. */
  get injected(): number {
    return this.#injected;
  }

  end(): void {
    this.#hasEnded = true;
    this.#ended.resolve();
  }

  /** Resolves when the app has sent more than this many requests from now, or the stories have ended. */
  async afterRequests(count: number): Promise<void> {
    const { promise: reached, resolve } = Promise.withResolvers<void>();
    let requests = 0;
    const stop = this.#github.onRequest(() => {
      requests += 1;
      if (requests > count) resolve();
      return undefined;
    });
    await Promise.race([reached, this.#ended.promise]);
    stop();
  }

  /** Resolves to true at this moment, counted from now, and to false if the stories end before. */
  async reaches({ afterRequests, afterMs }: Moment): Promise<boolean> {
    await this.afterRequests(afterRequests);
    if (this.#hasEnded) return false;
    await pause(afterMs);
    if (this.#hasEnded) return false;
    this.#injected += 1;
    return true;
  }
}

/** Waits until GitHub has the expected content of each issue, and returns a description of the difference if it does not get it. */
async function findDifference(
  forge: Pick<Forge, "github">,
  issues: readonly number[],
  expected: unknown,
  previous?: PreviousVersion,
): Promise<string | undefined> {
  const isExpected = (held: unknown) =>
    previous ? isOfEither(held, expected, previous.expected) : isDeepStrictEqual(held, expected);
  // A replica that resumes now must not repeat the posts of another one.
  await pause(1_500);
  const until = performance.now() + settleMs;
  for (;;) {
    const snapshot = await forge.github.snapshot();
    const held = await Promise.all(issues.map((issue) => whatGitHubHolds(forge, snapshot, issue)));
    const different = held.findIndex((one) => !isExpected(one));
    if (different < 0) return undefined;
    if (performance.now() > until) {
      const found = JSON.stringify(held[different], null, 1);
      return `GitHub holds of issue ${issues[different]}:\n${found}\nexpected:\n${JSON.stringify(expected, null, 1)}`;
    }
    await pause(250);
  }
}

/** Compares the content of GitHub with that of two versions, which may word the same thing differently. */
function isOfEither(held: unknown, one: unknown, other: unknown): boolean {
  if (typeof held === "string") {
    const [first] = held.split("\n", 1);
    return [one, other].some((expected) => typeof expected === "string" && expected.split("\n", 1)[0] === first);
  }
  if (typeof held !== "object" || held === null) return [one, other].includes(held);
  const partsOf = (value: unknown) => Object.entries(value ?? {});
  const [parts, ones, others] = [partsOf(held), partsOf(one), partsOf(other)];
  return (
    parts.length === ones.length &&
    parts.every(([name, part]) => isOfEither(part, Object.fromEntries(ones)[name], Object.fromEntries(others)[name]))
  );
}

/** The processes of the app, behind a load balancer that sends each webhook to the next one. */
class Cluster {
  readonly #forge: Forge;
  readonly #crashServer: CrashServer | undefined;
  readonly #replicas: Replica[] = [];
  /** The program of each process; undefined for this version. */
  readonly #programs: (string | undefined)[] = [];
  readonly #pending = new Set<Promise<unknown>>();
  /** The processes that were asked to exit. Any other process that exits has failed. */
  readonly #killed = new WeakSet<Replica>();
  /** Replaces one process at a time, so that a process is not killed again before it has restarted. */
  readonly #replacements = new SerialQueue();
  #next = 0;
  #isClosed = false;

  constructor(forge: Forge, crashServer: CrashServer | undefined) {
    this.#forge = forge;
    this.#crashServer = crashServer;
  }

  async start(count: number, program?: string): Promise<void> {
    for (let index = 0; index < count; index += 1) {
      this.#programs.push(program);
      this.#replicas.push(await this.#forge.startReplica({}, program));
    }
    const nextUrl = () => {
      this.#next += 1;
      return `${this.#replicas[this.#next % this.#replicas.length]?.url}/api/github/webhooks`;
    };
    this.#forge.github.webhook = {
      get url() {
        return nextUrl();
      },
      secret: this.#forge.webhookSecret,
    };
  }

  /** Resolves when all faults have happened, or the story has ended, and all processes run again. */
  async inject(faults: readonly Fault[], story: StoryProgress): Promise<void> {
    for (const fault of faults) {
      if (!(await story.reaches(fault))) break;
      const injected = this.#inject(fault);
      // The error is reported once all faults have ended.
      injected.catch(() => undefined);
      this.#pending.add(injected);
      // Only one restart of the database at a time.
      if (fault.kind === "restart") await injected;
    }
    await Promise.all(this.#pending);
  }

  /** Reports a process that ended without being killed. */
  findEnded(): string | undefined {
    const ended = this.#replicas.findIndex((replica) => replica.hasEnded() && !this.#killed.has(replica));
    if (ended < 0) return undefined;
    return `Replica ${ended} ended by itself. The app printed:\n${this.#forge.printed().slice(-4_000)}`;
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await Promise.allSettled(this.#pending);
    await this.#forge.close();
  }

  async #inject(fault: Fault): Promise<void> {
    if (this.#isClosed) return;
    switch (fault.kind) {
      case "kill":
        return this.#replacements.run(() => this.#replace(fault.replica, "SIGKILL"));
      case "upgrade":
        // Now, since the previous version may refuse to start again once the database has been migrated.
        this.#programs[fault.replica] = undefined;
        return this.#replacements.run(() => this.#replace(fault.replica, fault.signal));
      case "freeze":
        return this.#freeze(fault);
      case "clock":
        return this.#replicas[fault.replica]?.send("SIGUSR2");
      case "restart": {
        const { folder, server } = this.#crashServer ?? {};
        if (!folder || !server || !this.#crashServer) throw new Error("There is no server to restart.");
        process.kill(server.pid, databaseSignals[fault.mode]);
        await pause(fault.forMs);
        this.#crashServer.server = await restartPostgresServer(folder, server);
      }
    }
  }

  async #replace(index: number, signal: NodeJS.Signals): Promise<void> {
    const replica = this.#replicas[index];
    if (!replica) return;
    this.#killed.add(replica);
    await replica.end(signal);
    // Restart it as a supervisor would. The new process has its own address.
    for (;;) {
      const started = await this.#forge.startReplica({}, this.#programs[index]);
      if (!started.hasEnded()) {
        this.#replicas[index] = started;
        return;
      }
      if (this.#isClosed) return;
      await pause(200);
    }
  }

  async #freeze({ replica: index, forMs }: Extract<Fault, { kind: "freeze" }>): Promise<void> {
    const replica = this.#replicas[index];
    if (!replica || replica.hasEnded()) return;
    replica.send("SIGSTOP");
    await pause(forMs);
    replica.send("SIGCONT");
    await pause(500);
    if (replica.hasEnded() && !this.#killed.has(replica)) throw new Error("A replica ended after it was frozen.");
  }
}

/** Mulberry32, a seeded generator of numbers from 0 to 1. */
function randomNumbers(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
