import { randomBytes } from "node:crypto";
import { readFile, rename, writeFile } from "node:fs/promises";
import { parseEnv } from "node:util";
import { UserError } from "#domain/errors.ts";

/** True if any setting of a GitHub App is set. Then a missing one is a mistake rather than a first start. */
export function isConfigured(environment: Record<string, string | undefined>): boolean {
  const { APP_ID, PRIVATE_KEY, PRIVATE_KEY_PATH, WEBHOOK_SECRET } = environment;
  return [APP_ID, PRIVATE_KEY, PRIVATE_KEY_PATH, WEBHOOK_SECRET].some(Boolean);
}

export async function namesIn(file: string): Promise<string[]> {
  return Object.keys(parseEnv(await readIfPresent(file)));
}

/** Throws a UserError if the file already sets one of these variables. */
export async function assertNotSet(file: string, names: readonly string[]): Promise<void> {
  const known = await namesIn(file);
  const taken = names.filter((name) => known.includes(name));
  if (taken.length === 0) return;
  throw new UserError(`${file} already sets ${taken.join(", ")}. Remove these lines, or choose another file.`);
}

/** Adds variables to an env file with mode 600. Throws a UserError, and writes nothing, if one is already set. */
export async function addToEnvFile(file: string, variables: Record<string, string>): Promise<void> {
  await assertNotSet(file, Object.keys(variables));
  const before = await readIfPresent(file);
  const lines = Object.entries(variables).map(([name, value]) => `${name}=${quote(value)}\n`);
  await replaceFile(file, `${before}${before === "" || before.endsWith("\n") ? "" : "\n"}${lines.join("")}`);
}

/**
 * Writes a new file `<name><ending>` that only its owner can read, under another name if there is one already. Returns its
 * path.
 */
export async function writeSecretFile(name: string, ending: string, content: string): Promise<string> {
  const write = async (file: string) => {
    await writeFile(file, content, { mode: 0o600, flag: "wx" });
    return file;
  };
  return write(`${name}${ending}`).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== "EEXIST") throw error;
    return write(`${name}-${randomBytes(4).toString("hex")}${ending}`);
  });
}

/** Returns an empty text only if the file does not exist: one that cannot be read must not be replaced. */
async function readIfPresent(file: string): Promise<string> {
  return readFile(file, "utf8").catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return "";
    throw new UserError(`${file} cannot be read (${error.code}). Make it readable, or choose another file.`, {
      cause: error,
    });
  });
}

// Replaces the file atomically: if the process dies, the old file stays intact.
async function replaceFile(file: string, content: string): Promise<void> {
  const draft = `${file}.${randomBytes(4).toString("hex")}`;
  await writeFile(draft, content, { mode: 0o600, flag: "wx" });
  await rename(draft, file);
}

function quote(value: string): string {
  return /^[\w.:/@%+=,-]*$/.test(value) ? value : JSON.stringify(value);
}
