import { UserError } from "#domain/errors.ts";
import { type Attachment, isTextMediaType } from "#domain/events.ts";
import type { WorkerDefinition } from "#domain/worker.ts";

type Policy = NonNullable<WorkerDefinition["attachment_policy"]>;

/** A file for a worker. */
export interface AttachedFile {
  name: string;
  mediaType: string;
  bytes: Buffer;
}

/** Converts files for the model. Throws a UserError if they violate the worker's attachment policy. */
export function checkAttachments(worker: WorkerDefinition, files: readonly AttachedFile[]): Attachment[] {
  const { attachment_policy: policy } = worker;
  const problem = policy && findPolicyProblem(policy, files);
  if (problem) throw new UserError(`Attachment policy violation: ${problem}`);
  return files.map(toAttachment);
}

/** Converts a file to its stored form. */
export function toAttachment({ name, mediaType, bytes }: AttachedFile): Attachment {
  return { name, mediaType, data: bytes.toString(isTextMediaType(mediaType) ? "utf8" : "base64") };
}

/** Explains why a policy does not allow these files together; undefined if it does. */
export function findPolicyProblem(policy: Policy, files: readonly AttachedFile[]): string | undefined {
  const { max_attachments: maxFiles, max_total_bytes: maxBytes } = policy;
  if (files.length > maxFiles) return `at most ${count(maxFiles)} (max_attachments), but ${files.length} were given.`;

  const total = files.reduce((sum, { bytes }) => sum + bytes.length, 0);
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

/** The file types that models read, by their first bytes. */
const signatures: [mediaType: string, matches: (start: string) => boolean][] = [
  ["image/png", (start) => start.startsWith("\x89PNG\r\n\x1a\n")],
  ["image/jpeg", (start) => start.startsWith("\xff\xd8\xff")],
  ["image/gif", (start) => /^GIF8[79]a/.test(start)],
  ["image/webp", (start) => /^RIFF[\s\S]{4}WEBP/.test(start)],
  ["application/pdf", (start) => start.startsWith("%PDF-")],
];
const signatureBytes = 16;
/** File name extensions of the types above, whatever the content is. */
const binaryName = /\.(png|jpe?g|gif|webp|pdf)$/i;

/**
 * Detects the type of a file by its content: an image, a PDF, or UTF-8 text. Returns undefined for anything else, and
 * for text with the file name of an image.
 */
export function detectMediaType(name: string, bytes: Buffer): string | undefined {
  const start = bytes.toString("latin1", 0, signatureBytes);
  const found = signatures.find(([, matches]) => matches(start));
  if (found) return found[0];
  const isText = !binaryName.test(name) && !bytes.includes(0) && Buffer.from(bytes.toString("utf8")).equals(bytes);
  return isText ? "text/plain" : undefined;
}
