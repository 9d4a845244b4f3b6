import type { Writable } from "node:stream";

/** The log of a job on GitHub. */
export interface JobLog {
  info(message: string): void;
  error(message: string, error: unknown): void;
  /** Writes an error that GitHub shows on the page of the job. */
  annotate(message: string): void;
}

/** Writes a job's log. The runner executes commands in the output, so no other text may look like one. */
export function createJobLog(output: Writable, redact: (text: string) => string): JobLog {
  const write = (message: string) => {
    for (const line of redact(message).split(/\r\n|[\n\r\u2028\u2029]/)) {
      output.write(`golem: ${line.replaceAll("##[", "## [")}\n`);
    }
  };
  return {
    info: write,
    error: (message, error) =>
      write(`${message}\n${error instanceof Error ? (error.stack ?? error.message) : String(error)}`),
    annotate: (message) => {
      const escaped = redact(message).replaceAll("%", "%25").replaceAll("\r", "%0D").replaceAll("\n", "%0A");
      output.write(`::error title=Golem Forge::${escaped}\n`);
    },
  };
}
