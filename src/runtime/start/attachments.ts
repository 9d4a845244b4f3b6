import { UserError } from "#domain/errors.ts";
import { type Attachment, isTextMediaType } from "#domain/events.ts";
import type { GitHub } from "#domain/github.ts";
import type { WorkerDefinition } from "#domain/worker.ts";
import { pluralize } from "#text/pluralize.ts";
import { cleanText, wrapUntrusted } from "#text/untrusted.ts";

type Policy = NonNullable<WorkerDefinition["attachment_policy"]>;

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
function toAttachment({ name, mediaType, bytes }: AttachedFile): Attachment {
  return { name, mediaType, data: bytes.toString(isTextMediaType(mediaType) ? "utf8" : "base64") };
}

/** Explains why a policy does not allow these files together; undefined if it does. */
function findPolicyProblem(policy: Policy, files: readonly AttachedFile[]): string | undefined {
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
  return pluralize(files, "attachment");
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
/** The file name extensions of the types above. */
const binaryName = /\.(png|jpe?g|gif|webp|pdf)$/i;

/** Detects an image, a PDF or UTF-8 text by content. Undefined for other files and for text named as an image. */
export function detectMediaType(name: string, bytes: Buffer): string | undefined {
  const start = bytes.toString("latin1", 0, signatureBytes);
  const found = signatures.find(([, matches]) => matches(start));
  if (found) return found[0];
  const isText = !binaryName.test(name) && !bytes.includes(0) && Buffer.from(bytes.toString("utf8")).equals(bytes);
  return isText ? "text/plain" : undefined;
}

/** Limits of the attachments from an issue. The worker's attachment policy can only lower them. */
const maxFiles = 5;
const maxFileBytes = 2 * 1024 ** 2;
const maxTotalBytes = 4 * 1024 ** 2;
const maxTextBytes = 100_000;
const maxNamed = 20;
/** For all files together, since the run waits for them. */
const timeoutMs = 10_000;

const textName =
  /\.(txt|md|log|json|jsonc|csv|tsv|diff|patch|ya?ml|toml|ini|conf|xml|py|ts|js|c|h|cpp|java|go|rs|rb|sh|sql)$/i;

export interface ReadAttachments {
  files: Attachment[];
  /** Names every file, and says why some could not be read. Empty if there are no files. */
  note: string;
}

/**
 * Reads the images and files attached to texts of an issue or pull request, within limits and the worker's attachment
 * policy. Never fails: a file that cannot be read is listed with the reason.
 */
export async function readAttachments(
  github: Pick<GitHub, "findAttachments" | "downloadAttachment">,
  thread: number,
  texts: readonly string[],
  worker: Pick<WorkerDefinition, "attachment_policy">,
): Promise<ReadAttachments> {
  const links = new Map(texts.flatMap((text) => github.findAttachments(text)).map((link) => [link.url, link]));
  if (links.size === 0) return { files: [], note: "" };

  const signal = AbortSignal.timeout(timeoutMs);
  const listed = [...links.values()].slice(0, maxNamed);
  const results = await Promise.all(
    listed.map(async ({ name, url }, index) => {
      if (index >= maxFiles) return { name, problem: `only ${maxFiles} files are read` };
      try {
        const bytes = await github.downloadAttachment(url, { thread, maxBytes: maxFileBytes, signal });
        return readFile(name, bytes);
      } catch (error) {
        return { name, problem: error instanceof UserError ? error.message : "GitHub did not send it" };
      }
    }),
  );
  const files: AttachedFile[] = [];
  const lines = results.map((result) => {
    const problem = "bytes" in result ? findProblem([...files, result], worker) : result.problem;
    if ("bytes" in result && problem === undefined) {
      files.push(result);
      return `${result.name} (${result.mediaType}, ${result.bytes.length} bytes)`;
    }
    return `${result.name} (not read: ${problem})`;
  });
  if (links.size > maxNamed) lines.push(`and ${links.size - maxNamed} more`);
  const note = `Attached files:\n${wrapUntrusted(cleanText(lines.join("\n")).text, "names of attached files")}`;
  return { files: files.map(toStored), note };
}

function readFile(given: string, bytes: Buffer): AttachedFile | { name: string; problem: string } {
  const mediaType = detectMediaType(given, bytes);
  if (mediaType === undefined || (isTextMediaType(mediaType) && !textName.test(given))) {
    return { name: given, problem: "it is not an image, a PDF or a text file" };
  }
  const name = /\.\w{1,5}$/.test(given) ? given : `${given}.${mediaType.replace(/^.*\//, "")}`;
  return { name, mediaType, bytes: isTextMediaType(mediaType) ? bytes.subarray(0, maxTextBytes) : bytes };
}

function findProblem(
  files: readonly AttachedFile[],
  { attachment_policy: policy }: Pick<WorkerDefinition, "attachment_policy">,
) {
  const total = files.reduce((sum, { bytes }) => sum + bytes.length, 0);
  if (total > maxTotalBytes) return `files have more than ${maxTotalBytes} bytes in total`;
  return policy && findPolicyProblem(policy, files);
}

/** Converts a file to its stored form. Text reaches the model unchanged, so it is marked as untrusted here. */
function toStored(file: AttachedFile): Attachment {
  const attachment = toAttachment(file);
  if (!isTextMediaType(file.mediaType)) return attachment;
  return { ...attachment, data: wrapUntrusted(cleanText(attachment.data).text, `the attached file ${file.name}`) };
}
