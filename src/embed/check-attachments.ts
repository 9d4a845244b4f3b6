import { UserError } from "#domain/errors.ts";
import { type Attachment, isTextMediaType } from "#domain/events.ts";
import type { WorkerDefinition } from "#domain/worker.ts";
import type { RunAttachment } from "./options.ts";

type Policy = NonNullable<WorkerDefinition["attachment_policy"]>;

/** Converts attachments for the model. Throws a UserError when they violate the worker's attachment policy. */
export function checkAttachments(worker: WorkerDefinition, given: readonly RunAttachment[]): Attachment[] {
  const read = given.map(({ name = "attachment", mimeType, data }) => ({
    name,
    mimeType,
    bytes: bytesOf(data, mimeType),
  }));
  const { attachment_policy: policy } = worker;
  const problem =
    policy &&
    checkPolicy(
      policy,
      read.map(({ name, bytes }) => ({ name, size: bytes.length })),
    );
  if (problem) throw new UserError(`Attachment policy violation: ${problem}`);

  return read.map(({ name, mimeType, bytes }) => ({
    name,
    mediaType: mimeType,
    data: bytes.toString(isTextMediaType(mimeType) ? "utf8" : "base64"),
  }));
}

function checkPolicy(policy: Policy, files: readonly { name: string; size: number }[]): string | undefined {
  const { max_attachments: maxFiles, max_total_bytes: maxBytes } = policy;
  if (files.length > maxFiles) return `at most ${count(maxFiles)} (max_attachments), but ${files.length} were given.`;

  const total = files.reduce((sum, { size }) => sum + size, 0);
  if (total > maxBytes) {
    return `at most ${maxBytes} bytes in total (max_total_bytes), but these have ${total}.`;
  }
  const [allowed, denied] = [policy.allowed_suffixes, policy.denied_suffixes].map((list) => list.map(plainSuffix));
  for (const { name } of files) {
    const is = (suffix: string) => name.toLowerCase().endsWith(suffix);
    if (denied?.some(is)) return `files ending in ${denied.join(", ")} are not allowed (denied_suffixes): ${name}.`;
    if (allowed?.length && !allowed.some(is)) {
      return `only files ending in ${allowed.join(", ")} are allowed (allowed_suffixes), not ${name}.`;
    }
  }
  return undefined;
}

function count(files: number): string {
  return files === 1 ? "1 attachment" : `${files} attachments`;
}

function plainSuffix(suffix: string): string {
  return (suffix.startsWith(".") ? suffix : `.${suffix}`).toLowerCase();
}

function bytesOf(data: RunAttachment["data"], mimeType: string): Buffer {
  if (typeof data === "string") return Buffer.from(data, isTextMediaType(mimeType) ? "utf8" : "base64");
  return data instanceof ArrayBuffer ? Buffer.from(data) : Buffer.from(data.buffer, data.byteOffset, data.byteLength);
}
