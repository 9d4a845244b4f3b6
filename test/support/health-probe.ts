import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { isMainThread, parentPort, Worker, workerData } from "node:worker_threads";

const intervalMs = 200;
const timeoutMs = 30_000;

/** One request to the app's health check and a simultaneous one to an idle server. */
export interface HealthSample {
  at: number;
  appMs: number;
  idleMs: number;
  /** The time for which the app's main thread was ready but waited for a processor. */
  queuedMs: number;
}

export interface HealthProbe {
  /** Resolves to the samples taken since the last call. */
  take(): Promise<HealthSample[]>;
  close(): Promise<void>;
}

/** Returns how much longer the app took to answer than the machine's load explains. */
export function delayOf({ appMs, idleMs, queuedMs }: HealthSample): number {
  return appMs - Math.max(idleMs, queuedMs);
}

/** Requests `/healthz` five times a second from a separate thread, so that the test's own work does not affect the samples. */
export async function startHealthProbe({ url, pid }: { url: string; pid: number }): Promise<HealthProbe> {
  const idle = await startIdleServer();
  const worker = new Worker(new URL(import.meta.url), { workerData: { url, pid, idleUrl: idle.url } });
  return {
    async take() {
      const answered = once(worker, "message");
      worker.postMessage("take");
      const [samples] = await answered;
      return samples as HealthSample[];
    },
    async close() {
      await worker.terminate();
      idle.child.kill("SIGKILL");
    },
  };
}

async function startIdleServer(): Promise<{ url: string; child: ChildProcess }> {
  const program = `const server = require("node:http").createServer((_, response) => response.end("ok"));
    server.listen(0, "127.0.0.1", () => console.log(server.address().port));`;
  const child = spawn(process.execPath, ["-e", program], { stdio: ["ignore", "pipe", "inherit"] });
  const [port] = await once(child.stdout, "data");
  return { url: `http://127.0.0.1:${Number(String(port))}/`, child };
}

async function probe({ url, pid, idleUrl }: { url: string; pid: number; idleUrl: string }): Promise<void> {
  let samples: HealthSample[] = [];
  parentPort?.on("message", () => {
    parentPort?.postMessage(samples);
    samples = [];
  });
  for (;;) {
    const at = performance.timeOrigin + performance.now();
    const queuedBefore = queuedMs(pid);
    const [appMs, idleMs] = await Promise.all([timeOf(`${url}/healthz`), timeOf(idleUrl)]);
    samples.push({ at, appMs, idleMs, queuedMs: queuedMs(pid) - queuedBefore });
    await sleep(Math.max(0, intervalMs - appMs));
  }
}

async function timeOf(url: string): Promise<number> {
  const started = performance.now();
  await fetch(url, { signal: AbortSignal.timeout(timeoutMs) }).then(
    (answer) => answer.text(),
    () => undefined,
  );
  return performance.now() - started;
}

/** Returns the time a process's main thread has waited for a processor. Available on Linux only. */
function queuedMs(pid: number): number {
  try {
    return Number(readFileSync(`/proc/${pid}/schedstat`, "utf8").split(" ")[1]) / 1_000_000;
  } catch {
    return 0;
  }
}

if (!isMainThread && workerData?.idleUrl) await probe(workerData);
