import { ToolError } from "#domain/errors.ts";
import type { Availability, ExecSession, Executor, SessionOptions, Tier } from "./executor.ts";
import { createMemoryExecutor } from "./memory/memory-executor.ts";
import { createOsExecutor, type OsExecutorOptions, setupCacheFor } from "./os/os-executor.ts";
import { createRemoteExecutor, type RemoteExecutorOptions } from "./remote/remote-executor.ts";

export interface ExecutorsOptions {
  /** `false` disables the OS sandbox. */
  os?: OsExecutorOptions | false;
  /** A module that opens remote sandboxes. Default: none. */
  remote?: RemoteExecutorOptions;
  /** Milliseconds after which an idle session is closed. Default: 1 minute in memory, 10 minutes elsewhere. */
  idleMs?: number;
  /** Called once per tier, with the result of its first probe. */
  onAvailability?(availability: Availability): void;
}

/** All tiers that commands can run in, with the sessions of their runs. */
export type Executors = ReturnType<typeof createExecutors>;

// A memory session holds a process. The others hold a folder with installed packages, which the next command can use.
const defaultIdleMs: Record<Tier, number> = { memory: 60_000, os: 10 * 60_000, remote: 10 * 60_000 };

export function createExecutors(options: ExecutorsOptions = {}) {
  const { idleMs, onAvailability } = options;
  const executors = new Map<Tier, Executor>();
  executors.set("memory", createMemoryExecutor());
  const { os = {} } = options;
  const setups = os === false ? undefined : (os.setups ?? setupCacheFor(os));
  if (os !== false) executors.set("os", createOsExecutor({ ...os, ...(setups && { setups }) }));
  if (options.remote) executors.set("remote", createRemoteExecutor(options.remote));

  const availabilities = new Map<Tier, Promise<Availability>>();
  const sessions = new Map<string, { session: Promise<ExecSession>; idle: NodeJS.Timeout | undefined; busy: number }>();

  const availability = (tier: Tier): Promise<Availability> => availabilities.getOrInsertComputed(tier, probe);

  async function probe(tier: Tier): Promise<Availability> {
    const found = (await executors.get(tier)?.probe()) ?? { tier, available: false, reason: reasonNotConfigured(tier) };
    onAvailability?.(found);
    return found;
  }

  async function open(tier: Tier, options: SessionOptions | undefined): Promise<ExecSession> {
    const { available, reason } = await availability(tier);
    const executor = executors.get(tier);
    if (!available || !executor) throw new ToolError(`unavailable: ${reason}`, { code: "UNAVAILABLE" });
    return executor.open(options);
  }

  function tracked(name: string, session: ExecSession): ExecSession {
    const held = sessions.get(name);
    return {
      tier: session.tier,
      async exec(tree, request) {
        if (held) held.busy += 1;
        clearTimeout(held?.idle);
        try {
          return await session.exec(tree, request);
        } finally {
          if (held) {
            held.busy -= 1;
            if (held.busy === 0)
              held.idle = setTimeout(() => void closeByName(name), idleMs ?? defaultIdleMs[session.tier]).unref();
          }
        }
      },
      close: () => closeByName(name),
    };
  }

  async function closeByName(name: string): Promise<void> {
    const held = sessions.get(name);
    sessions.delete(name);
    clearTimeout(held?.idle);
    await (await held?.session.catch(() => undefined))?.close();
  }

  return {
    /** The dependencies that setups prepared for the OS tier; undefined if that tier is not configured. */
    setups,
    availability,
    /** Returns the availability of each tier, with the reason. Probes only once. */
    availabilities: () => Promise.all((["memory", "os", "remote"] as const).map(availability)),
    /** Returns the session for this key, and opens it if necessary. Throws a ToolError `UNAVAILABLE` with the reason. */
    async openSession(tier: Tier, key: string, options?: SessionOptions): Promise<ExecSession> {
      const name = `${tier} ${key}`;
      const start = () => ({ session: open(tier, options), idle: undefined, busy: 0 });
      try {
        return tracked(name, await sessions.getOrInsertComputed(name, start).session);
      } catch (error) {
        sessions.delete(name);
        throw error;
      }
    },
    /** Closes the session for this key, if there is one. */
    closeSession: (tier: Tier, key: string) => closeByName(`${tier} ${key}`),
    async close(): Promise<void> {
      await Promise.all([...sessions.keys()].map(closeByName));
      await Promise.all([...executors.values()].map((executor) => executor.close()));
    },
  };
}

function reasonNotConfigured(tier: Tier): string {
  return tier === "os"
    ? "no OS sandbox (it is switched off by this deployment)"
    : "no remote sandbox (this deployment configures none)";
}

let shared: Executors | undefined;

/** Returns the executors for tools that were given none. They are created on first use and live as long as the process. */
export function defaultExecutors(): Executors {
  shared ??= createExecutors();
  return shared;
}
