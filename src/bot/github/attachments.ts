import { UserError } from "#domain/errors.ts";
import type { RepositoryApi } from "./repository-api.ts";

/** A file that someone attached to an issue, a pull request or a comment. */
export interface AttachmentLink {
  name: string;
  url: string;
}

/** The address of attached files, and the token for those of a private repository. */
export interface AttachmentSource {
  /** `https://github.com`, or the URL of the GitHub Enterprise Server. */
  webUrl: string;
  createToken: () => Promise<string>;
}

/** The text of a refusal for files of a private repository: GitHub has no permission with which an App can read them. */
const hidden = "GitHub shows it only to people who are signed in";

/** The hosts that store files of github.com. GitHub redirects to them; they never get a token. */
const storageHosts = [
  "user-images.githubusercontent.com",
  "private-user-images.githubusercontent.com",
  "objects.githubusercontent.com",
  "github-production-user-asset-6210df.s3.amazonaws.com",
];
/** The hosts that bodies link to directly. */
const linkedHosts = storageHosts.slice(0, 2);

const urlPattern = /https?:\/\/[^\s<>"'()[\]\\]{1,2000}/g;
/** Names reach the model next to its instructions, and anyone may have chosen them: so they are short and without spaces. */
const maxNameLength = 50;
const maxRedirects = 3;

/** Finds the files attached to a text in Markdown: images, links, and the plain URLs of videos. */
export function findAttachments(text: string, { webUrl }: Pick<AttachmentSource, "webUrl">): AttachmentLink[] {
  return [...text.matchAll(urlPattern)].flatMap(({ 0: url, index }) => {
    if (!URL.canParse(url) || !isAttachment(new URL(url), webUrl)) return [];
    // Only the end of the text before the link is searched, so that the time is linear.
    const label = /\[([^\][\n]{1,200})\]\($/.exec(text.slice(Math.max(0, index - 204), index))?.[1];
    const last = decodeName(new URL(url).pathname.split("/").at(-1) ?? "");
    const name = (/\.\w{1,5}$/.test(last) ? last : (label ?? last)).replace(/[^\p{L}\p{N}._-]+/gu, "_");
    return [{ url, name: name.slice(-maxNameLength) || "file" }];
  });
}

/** Decodes the percent escapes of a file name, unless one of them is not valid. */
function decodeName(name: string): string {
  try {
    return decodeURIComponent(name);
  } catch {
    return name;
  }
}

function isAttachment(url: URL, webUrl: string): boolean {
  return isOnWebHost(url, webUrl) || (isGitHubDotCom(webUrl) && isPlainHttps(url) && linkedHosts.includes(url.host));
}

/** True for the addresses that the web host assigns to attached files. */
function isOnWebHost(url: URL, webUrl: string): boolean {
  const isOwn = url.origin === new URL(webUrl).origin && url.username === "" && url.password === "";
  return isOwn && /^\/(user-attachments\/(assets|files)|storage\/user)\/[\w/.%-]+$/.test(url.pathname);
}

/** True for a storage that the web host may redirect to: GitHub's, or `media.` of an Enterprise server. */
function isStorage(url: URL, webUrl: string): boolean {
  if (isOnWebHost(url, webUrl)) return true;
  if (!isPlainHttps(url)) return false;
  return isGitHubDotCom(webUrl) ? storageHosts.includes(url.host) : url.host === `media.${new URL(webUrl).host}`;
}

function isGitHubDotCom(webUrl: string): boolean {
  return new URL(webUrl).host === "github.com";
}

function isPlainHttps({ protocol, username, password }: URL): boolean {
  return protocol === "https:" && username === "" && password === "";
}

/** The address of an attached file has answered 404, as it does to Apps in private repositories. */
export class HiddenAttachmentError extends UserError {}

/**
 * Finds the address of an image in the HTML that GitHub rendered from the texts it is attached to: there, images of a private
 * repository have a signed address that is valid for a few minutes.
 */
export function findSignedUrl(
  link: string,
  html: string,
  { webUrl }: Pick<AttachmentSource, "webUrl">,
): string | undefined {
  const id = /\/user-attachments\/assets\/([\w-]+)$/.exec(new URL(link).pathname)?.[1];
  if (id === undefined) return undefined;
  const urls = [...html.replaceAll("&amp;", "&").matchAll(urlPattern)].map(([url]) => url);
  return urls.find((url) => {
    if (!URL.canParse(url) || !isAttachment(new URL(url), webUrl)) return false;
    const { pathname, search } = new URL(url);
    return pathname.includes(id) && search !== "";
  });
}

/**
 * Downloads an attached file from GitHub's own hosts. The token is sent to the web host alone, and redirects are followed
 * only to GitHub's storage. Throws a UserError that says why there is no file.
 */
export async function downloadAttachment(
  link: string,
  { webUrl, createToken }: AttachmentSource,
  { maxBytes, signal }: { maxBytes: number; signal: AbortSignal },
): Promise<Buffer> {
  let url = new URL(link);
  if (!isAttachment(url, webUrl)) throw new UserError("it is not on GitHub");
  for (let redirects = 0; redirects <= maxRedirects; redirects++) {
    // Only the first request needs it: GitHub signs the address that it redirects to.
    const needsToken = redirects === 0 && isOnWebHost(url, webUrl);
    const headers = needsToken ? { Authorization: `token ${await createToken()}` } : undefined;
    const response = await request(url, { headers, signal });
    if (response.status < 300 || response.status >= 400) return readBody(response, maxBytes);
    await response.body?.cancel();
    const location = response.headers.get("location") ?? "";
    if (!URL.canParse(location, url)) break;
    url = new URL(location, url);
    if (!isStorage(url, webUrl)) throw new UserError("it is not on GitHub");
  }
  throw new UserError("GitHub sent too many redirects");
}

async function request(
  url: URL,
  init: { headers: Record<string, string> | undefined; signal: AbortSignal },
): Promise<Response> {
  try {
    const { headers, signal } = init;
    return await fetch(url, { redirect: "manual", signal, ...(headers && { headers }) });
  } catch (error) {
    throw new UserError("GitHub did not send it in time", { cause: error });
  }
}

async function readBody(response: Response, maxBytes: number): Promise<Buffer> {
  const tooLarge = () => new UserError(`it has more than ${maxBytes} bytes`);
  try {
    if (response.status === 404) throw new HiddenAttachmentError(hidden);
    if (!response.ok || !response.body) throw new UserError(`GitHub responded with status ${response.status}`);
    if (Number(response.headers.get("content-length") ?? 0) > maxBytes) throw tooLarge();
    const chunks: Uint8Array[] = [];
    let size = 0;
    for await (const chunk of response.body) {
      size += chunk.length;
      if (size > maxBytes) throw tooLarge();
      chunks.push(chunk);
    }
    return Buffer.concat(chunks);
  } catch (error) {
    await response.body?.cancel().catch(() => {});
    if (error instanceof UserError) throw error;
    throw new UserError("GitHub did not send it in time", { cause: error });
  }
}

/** Requests `body_html` in addition to `body`. */
const rendered = { accept: "application/vnd.github.full+json", timeoutMs: 8_000, maxRetries: 0 };

/** Anyone can add comments to a thread, and the run waits for its files. */
const maxRenderedPages = 5;

/** Returns the texts of a thread as GitHub renders them: the first text and the oldest 500 comments. */
export async function renderThread(api: RepositoryApi, issue_number: number): Promise<string> {
  const thread = "GET /repos/{owner}/{repo}/issues/{issue_number}";
  const [issue, pages] = await Promise.all([
    api.call(thread, { issue_number }, rendered),
    api.callPages(`${thread}/comments`, { issue_number }, { ...rendered, maxPages: maxRenderedPages }),
  ]);
  return [issue, ...pages.flat()].map(({ body_html }) => body_html ?? "").join("\n");
}
