import { LRUCache } from "lru-cache";
import { OutageError, UserError } from "#domain/errors.ts";
import { confirmLease } from "#domain/work-context.ts";
import type { SandboxSource } from "#sandbox/sandbox.ts";
import { packLimits } from "./index-pack.ts";
import {
  delimiterPacket,
  encodePacket,
  flushPacket,
  type GitResponse,
  type Packet,
  parsePackets,
  readBody,
  readPackets,
  readSideBand,
  request,
} from "./request.ts";

interface RemoteRef {
  /** `refs/heads/main`, or `HEAD`. */
  name: string;
  oid: string;
  /** The target of a symbolic ref such as `HEAD`. */
  target?: string;
}

export interface FetchRequest {
  wants: readonly string[];
  /** Commits whose trees are known, so that only the differences are sent. */
  haves?: readonly string[];
  /** Known commits whose parents are missing; default: `haves`. */
  shallow?: readonly string[];
  /** The number of commits of history to send, including the wanted ones. */
  depth: number;
  /** The objects to leave out, if the server supports it: `blobs`, or `trees` and blobs. */
  without?: "blobs" | "trees" | undefined;
}

export type FetchResult =
  /** `shallow` lists the commits whose parents were not sent. */
  | { kind: "pack"; pack: AsyncIterable<Buffer>; shallow: string[] }
  /** The server does not have the wanted objects, or does not allow fetching them. */
  | { kind: "refused"; reason: string };

interface PushUpdate {
  /** `refs/heads/main`. */
  ref: string;
  /** Its current commit; undefined for a new ref. */
  from: string | undefined;
  to: string;
  pack: Buffer;
}

interface PushResponse {
  ok: boolean;
  /** The remote's message, without secrets. */
  reason: string;
}

/** A repository on a git server, accessed with the run's credentials. Used for one operation. */
export type Remote = ReturnType<typeof connect>;

interface Connection {
  name: string;
  root: URL;
  source: SandboxSource;
  signal: AbortSignal;
  /** The tokens of this operation, each requested once. */
  tokens: Map<"read" | "write", Promise<string | undefined>>;
}

const noCommit = "0".repeat(40);
const agentName = "agent=golem-forge";
const operationTimeoutMs = 10 * 60_000;
const maxMessageLength = 1_000;
const maxSmallResponseBytes = 64 * 1024 ** 2;

/** The capabilities of servers by address, which saves a request. Every other request checks the access. */
const knownCapabilities = new LRUCache<string, Map<string, string>>({ max: 1_000, ttl: 60 * 60_000 });

/** The addresses that accept a push only from a client that has read the refs. */
const advertisesFirst = new LRUCache<string, true>({ max: 1_000, ttl: 60 * 60_000 });

/** Throws a UserError when the address is not that of a git server. */
export function connect(source: SandboxSource, signal: AbortSignal | undefined) {
  const root = parseUrl(source.url);
  const name = root.pathname.replace(/^\/|\.git$/g, "");
  const deadline = AbortSignal.timeout(operationTimeoutMs);
  const connection: Connection = {
    name,
    root,
    source,
    signal: signal ? AbortSignal.any([signal, deadline]) : deadline,
    tokens: new Map(),
  };
  const capabilities = async () => {
    const known = knownCapabilities.get(root.href);
    const found = known ?? (await discover(connection));
    knownCapabilities.set(root.href, found);
    return found;
  };
  return {
    /** `owner/repo`, for messages. */
    name,
    /** Lists the refs that start with one of the prefixes. Resolves only if the server accepted the credentials. */
    refs: async (prefixes: readonly string[]) => {
      await capabilities();
      const lines = ["symrefs", ...prefixes.map((prefix) => `ref-prefix ${prefix}`)];
      return parseRefs(await parsePackets(await readBody(await command(connection, "ls-refs", lines))));
    },
    /** `other` replaces the signal of the connection, for a fetch that others also wait for. */
    fetch: async (asked: FetchRequest, other?: AbortSignal) => {
      const canFilter = (await capabilities()).get("fetch")?.split(" ").includes("filter") ?? false;
      const used = other ? { ...connection, signal: AbortSignal.any([other, deadline]) } : connection;
      const response = await command(used, "fetch", fetchArguments(asked, canFilter), packLimits.pack);
      return readFetch(connection, readPackets(response.body));
    },
    /** Moves a ref from one commit to another; the server compares and swaps. */
    push: async (update: PushUpdate) => {
      await confirmLease();
      return push(connection, update);
    },
  };
}

function parseUrl(text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url && ["http:", "https:"].includes(url.protocol) && !url.username && !url.password) {
    url.pathname = url.pathname.replace(/\/+$/, "");
    return url;
  }
  throw new UserError("The address of the repository is not an http or https address without credentials in it.");
}

async function discover(connection: Connection): Promise<Map<string, string>> {
  const path = "info/refs?service=git-upload-pack";
  const response = await send(connection, { access: "read", method: "GET", path });
  const packets = await parsePackets(await readBody(response));
  const lines = textLines(packets).filter((line) => !line.startsWith("# service="));
  if (lines[0] !== "version 2") {
    throw new UserError(`The git server of ${connection.name} does not support version 2 of git's protocol.`);
  }
  const format = lines.find((line) => line.startsWith("object-format="));
  if (format && format !== "object-format=sha1") {
    throw new UserError(`The repository ${connection.name} uses SHA-256 object names, which are not supported yet.`);
  }
  return new Map(lines.slice(1).map((line) => [line.replace(/=.*/s, ""), line.replace(/^[^=]*=?/, "")]));
}

function command(
  connection: Connection,
  name: string,
  lines: readonly string[],
  maxBytes = maxSmallResponseBytes,
): Promise<GitResponse> {
  const head = [`command=${name}\n`, `${agentName}\n`].map(encodePacket);
  const body = lines.map((line) => encodePacket(`${line}\n`));
  return send(connection, {
    access: "read",
    method: "POST",
    path: "git-upload-pack",
    body: Buffer.concat([...head, delimiterPacket, ...body, flushPacket]),
    maxBytes,
  });
}

function parseRefs(packets: readonly Packet[]): RemoteRef[] {
  return textLines(packets).flatMap((line) => {
    // The name of a branch may contain any white space but that of ASCII.
    const [oid = "", name, ...attributes] = line.split(" ");
    if (!/^[0-9a-f]{40}$/.test(oid) || !name) return [];

    const target = attributes.find((one) => one.startsWith("symref-target:"))?.slice("symref-target:".length);
    return [{ oid, name, ...(target ? { target } : {}) }];
  });
}

function fetchArguments({ wants, haves = [], shallow = haves, depth, without }: FetchRequest, canFilter: boolean) {
  const filter = without === "trees" ? "tree:0" : "blob:none";
  return [
    "thin-pack",
    "no-progress",
    "ofs-delta",
    ...wants.map((oid) => `want ${oid}`),
    ...shallow.map((oid) => `shallow ${oid}`),
    `deepen ${depth}`,
    ...(without && canFilter ? [`filter ${filter}`] : []),
    ...haves.map((oid) => `have ${oid}`),
    "done",
  ];
}

/** Reads a response up to its pack, which is then read as it arrives. */
async function readFetch({ name }: Connection, packets: AsyncGenerator<Packet>): Promise<FetchResult> {
  const shallow: string[] = [];
  for (;;) {
    const { value: packet, done } = await packets.next();
    if (done) throw new Error(`The git server of ${name} sent no pack.`);
    if (typeof packet === "string") continue;

    const line = packet.toString("utf8").trimEnd();
    if (line === "packfile") return { kind: "pack", pack: readSideBand(packets), shallow };
    if (line.startsWith("shallow ")) shallow.push(line.slice("shallow ".length));
    if (line.startsWith("ERR ")) {
      await packets.return(undefined);
      return { kind: "refused", reason: line.slice("ERR ".length) };
    }
  }
}

/** Pushes in one request, which git's protocol allows if the client knows the ref. */
async function push(connection: Connection, { ref, from, to, pack }: PushUpdate): Promise<PushResponse> {
  const line = `${from ?? noCommit} ${to} ${ref}\0 report-status side-band-64k ${agentName}`;
  const body = Buffer.concat([encodePacket(line), flushPacket, pack]);
  const response = await sendPush(connection, { access: "write", method: "POST", path: "git-receive-pack", body });
  const messages: Buffer[] = [];
  const data = await Array.fromAsync(readSideBand(readPackets(response.body), (message) => messages.push(message)));
  const report = textLines(await parsePackets(Buffer.concat(data)));
  const unpack = report.find((entry) => entry.startsWith("unpack "));
  if (unpack === "unpack ok" && report.includes(`ok ${ref}`)) return { ok: true, reason: "" };

  const refusal = report.find((entry) => entry.startsWith(`ng ${ref} `))?.slice(`ng ${ref} `.length);
  const reason = refusal ?? unpack ?? "it gave no reason";
  const message = Buffer.concat(messages).toString("utf8").trim();
  return { ok: false, reason: await sanitizeMessage(connection, message ? `${reason}\n${message}` : reason) };
}

/** Sends a push. If the server refuses a push before the refs were read, reads them and sends it again. */
async function sendPush(connection: Connection, post: Send): Promise<GitResponse> {
  const address = connection.root.href;
  if (!advertisesFirst.has(address)) {
    const response = await exchange(connection, post);
    if (!isRefusal(response)) return checked(connection, post, response);
    await readBody(response);
  }
  const path = "info/refs?service=git-receive-pack";
  await readBody(await send(connection, { access: "write", method: "GET", path }));
  const response = await send(connection, post);
  advertisesFirst.set(address, true);
  return response;
}

/** True for a status that concerns this request. Outages and rate limits do not. */
function isRefusal({ status, retryAfterMs }: GitResponse): boolean {
  return status >= 400 && status < 500 && status !== 429 && retryAfterMs === undefined;
}

interface Send {
  access: "read" | "write";
  method: "GET" | "POST";
  path: string;
  body?: Buffer;
  maxBytes?: number;
}

/** Sends a request. Throws unless it succeeds. */
async function send(connection: Connection, options: Send): Promise<GitResponse> {
  return checked(connection, options, await exchange(connection, options));
}

async function checked(connection: Connection, { access }: Send, response: GitResponse): Promise<GitResponse> {
  if (response.status === 200 && response.type.startsWith(`application/x-${serviceOf(access)}-`)) return response;
  throw await errorFor(connection, access, response);
}

function serviceOf(access: "read" | "write"): string {
  return access === "read" ? "git-upload-pack" : "git-receive-pack";
}

/** Sends a request. A token that was revoked early is replaced once. */
async function exchange(connection: Connection, post: Send): Promise<GitResponse> {
  const token = await tokenFor(connection, post.access);
  const response = await sendOnce(connection, post, token);
  if (response.status !== 401 || !token) return response;
  const renewed = await connection.source.token(post.access, token);
  if (renewed === token) return response;
  connection.tokens.set(post.access, Promise.resolve(renewed));
  await readBody(response);
  const repeated = await sendOnce(connection, post, renewed);
  if (repeated.status !== 401) return repeated;
  await readBody(repeated);
  throw new OutageError(`The git server of ${connection.name} rejects a new token (401).`);
}

async function sendOnce(
  connection: Connection,
  { access, method, path, body, maxBytes = maxSmallResponseBytes }: Send,
  token: string | undefined,
): Promise<GitResponse> {
  const headers: Record<string, string> = { "user-agent": "git/golem-forge", accept: "*/*" };
  if (access === "read") headers["git-protocol"] = "version=2";
  if (token) headers.authorization = `Basic ${Buffer.from(`x-access-token:${token}`).toString("base64")}`;
  if (body) headers["content-type"] = `application/x-${serviceOf(access)}-request`;

  const url = new URL(`${connection.root.pathname}/${path}`, connection.root);
  const repeatable = access === "read" || method === "GET";
  return request({
    method,
    url,
    headers,
    ...(body ? { body } : {}),
    maxBytes,
    repeatable,
    signal: connection.signal,
  });
}

async function errorFor(connection: Connection, access: "read" | "write", response: GitResponse): Promise<Error> {
  const { name } = connection;
  const { status, type } = response;
  const body = await readBody(response);
  const details = type.startsWith("text/plain")
    ? ` It says: ${await sanitizeMessage(connection, body.toString("utf8"))}`
    : "";
  if (status >= 300 && status < 400) {
    return new UserError(`The repository ${name} has moved: the git server redirects to another address.`);
  }
  const message = `The git server of ${name} answered ${status}.${details}`;
  // GitHub also answers with 403 when a rate limit is reached, with Retry-After or in words.
  const { retryAfterMs } = response;
  if (retryAfterMs !== undefined) return new OutageError(message, { retryAt: Date.now() + retryAfterMs });
  if (status >= 500 || status === 429 || /\brate limit\b/i.test(details)) return new OutageError(message);
  if (status === 401 || status === 403) {
    const action = access === "read" ? "read" : "push to";
    return new UserError(`The git server does not allow this app to ${action} ${name} (${status}).${details}`);
  }
  if (status === 404) {
    return new UserError(`Repository ${name} not found, or this app is not installed on it (404).`);
  }
  if (status === 200) return new UserError(`The address of ${name} is not that of a git server.`);
  return new Error(message);
}

function tokenFor(connection: Connection, access: "read" | "write"): Promise<string | undefined> {
  const known = connection.tokens.get(access);
  if (known !== undefined) return known;

  const token = connection.source.token(access);
  connection.tokens.set(access, token);
  // After a failure, the next use requests a new token.
  token.catch(() => connection.tokens.delete(access));
  return token;
}

/** Shortens a server's message, and removes control characters and the token, in case the server echoes it. */
async function sanitizeMessage(connection: Connection, message: string): Promise<string> {
  const tokens = (await Promise.all(connection.tokens.values())).filter((token) => token !== undefined);
  const secrets = tokens.flatMap((token) => [token, Buffer.from(`x-access-token:${token}`).toString("base64")]);
  const safe = secrets.reduce((text, secret) => (secret ? text.replaceAll(secret, "[secret]") : text), message);
  return safe
    .replace(/(?!\n)\p{Cc}/gu, " ")
    .trim()
    .slice(0, maxMessageLength);
}

function textLines(packets: readonly Packet[]): string[] {
  return packets
    .filter((packet) => typeof packet !== "string")
    .map((packet) => packet.toString("utf8").replace(/[\r\n]+$/, ""));
}
