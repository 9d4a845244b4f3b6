import { randomUUID } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Credentials } from "./credentials.ts";
import type { Repository, World } from "./world.ts";

/** Stores a file and returns its Markdown. */
export function attachFile(world: World, repository: Repository, file: { name: string; content: Buffer }): string {
  const { name } = file;
  const id = randomUUID();
  const isImage = /\.(png|jpe?g|gif|webp|svg)$/i.test(name);
  world.attachments.set(id, { ...file, signature: repository.private ? randomUUID() : undefined });
  const path = isImage ? `assets/${id}` : `files/${id}/${name}`;
  return `${isImage ? "!" : ""}[${name}](${world.url}/user-attachments/${path})`;
}

/**
 * Redirects a caller with a token from the address of an attached file to its storage, which refuses tokens as GitHub's
 * storage does. Files of private repositories are not found with a token. Returns false for other addresses.
 */
export function answerAttachment(
  { world, credentials }: { world: World; credentials: Credentials },
  { url: path = "", headers: { authorization } }: IncomingMessage,
  response: ServerResponse,
): boolean {
  const [, folder, id = ""] = /^\/(user-attachments\/(?:assets|files)|storage\/user)\/([\w-]+)/.exec(path) ?? [];
  if (!folder) return false;
  const file = world.attachments.get(id);
  const isPublic = file !== undefined && file.signature === undefined;
  if (folder !== "storage/user") {
    if (!isPublic || !credentials.accepts(authorization)) response.writeHead(404).end();
    else response.writeHead(302, { Location: `${world.url}/storage/user/${id}` }).end();
  } else if (!file || (!isPublic && !path.endsWith(`?jwt=${file.signature}`))) {
    response.writeHead(404).end();
  } else if (isPublic && authorization !== undefined) {
    response.writeHead(400).end();
  } else {
    response.writeHead(200, { "Content-Type": "application/octet-stream" }).end(file.content);
  }
  return true;
}

/** Adds `body_html` to the texts in an answer. In it, images of private repositories have signed addresses. */
export function renderBodies(world: World, answer: unknown): unknown {
  if (Array.isArray(answer)) return answer.map((one) => renderBodies(world, one));
  if (answer === null || typeof answer !== "object" || !("body" in answer)) return answer;
  const html = String(answer.body ?? "")
    .replace(/&/g, "&amp;")
    .replace(/</g, "&lt;");
  const images = /!\[[^\]]*\]\([^)]*\/user-attachments\/assets\/([\w-]+)\)/g;
  const body_html = html.replace(images, (markdown, id) => {
    const file = world.attachments.get(id);
    if (!file) return markdown;
    const query = file.signature === undefined ? "" : `?jwt=${file.signature}`;
    return `<img src="${world.url}/storage/user/${id}${query}" alt="${file.name}">`;
  });
  return { ...answer, body_html: `<p>${body_html}</p>` };
}
