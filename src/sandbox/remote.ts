import { OutageError, UserError } from "#domain/errors.ts";
import { packLimits } from "./pack-limits.ts";
import { delimiterPacket, encodePacket, flushPacket, type Packet, parsePackets, parseSideBand } from "./pkt-line.ts";
import { type GitResponse, request } from "./request.ts";
import type { SandboxSource } from "./sandbox.ts";

interface RemoteRef {
  /** `refs/heads/main`, or `HEAD`. */
  name: string;
  oid: string;
  /** What a symbolic ref such as `HEAD` points at. */
  target?: string;
}

interface FetchRequest {
  wants: readonly string[];
  haves?: readonly string[];
  /** How many commits of history, from the wanted ones down. */
  depth: number;
  /** What to leave out, for a server that can: `blobs`, or `trees` and blobs. */
  without?: "blobs" | "trees";
}

type FetchResult =
  | { kind: "pack"; pack: Buffer; shallow: string[] }
  /** The server does not have, or does not hand out, what was wanted. */
  | { kind: "refused"; reason: string };

interface PushResponse {
  ok: boolean;
  /** The remote's own words, without secrets. */
  reason: string;
}

/** One repository on a git server, asked with the run's own credentials. Lives for one operation. */
export interface Remote {
  /** `owner/repo`, for sentences. */
  name: string;
  /** The refs that start with one of these. Resolves only when the server accepted the credentials. */
  refs(prefixes: readonly string[]): Promise<RemoteRef[]>;
  /** `signal` replaces the one of the connection, for work that others wait for too. */
  fetch(request: FetchRequest, signal?: AbortSignal): Promise<FetchResult>;
  /** The refs as the server shows them to someone who may write. */
  refsForPush(): Promise<Map<string, string>>;
  /** Moves one branch from one commit to another; the server compares and swaps. */
  push(update: { branch: string; from: string | undefined; to: string; pack: Buffer }): Promise<PushResponse>;
}

const noCommit = "0".repeat(40);

const agentName = "agent=golem-forge";
const operationTimeoutMs = 10 * 60_000;
const maxMessageLength = 1_000;
const maxSmallResponseBytes = 64 * 1024 ** 2;

/** Throws a UserError for an address that is no git server's. */
export function connect(source: SandboxSource, signal: AbortSignal | undefined): Remote {
  const root = parseUrl(source.url);
  const name = root.pathname.replace(/^\/|\.git$/g, "");
  const deadline = AbortSignal.timeout(operationTimeoutMs);
  const wire: Connection = {
    name,
    root,
    source,
    signal: signal ? AbortSignal.any([signal, deadline]) : deadline,
    tokens: new Map(),
  };
  let capabilities: Promise<Map<string, string>> | undefined;
  const abilities = () => {
    capabilities ??= discover(wire);
    return capabilities;
  };
  return {
    name,
    refs: async (prefixes) => {
      await abilities();
      return parseRefs(
        await command(wire, "ls-refs", ["symrefs", ...prefixes.map((prefix) => `ref-prefix ${prefix}`)]),
      );
    },
    fetch: async (asked, other) => {
      const canFilter = (await abilities()).get("fetch")?.split(" ").includes("filter") ?? false;
      const line = other ? { ...wire, signal: AbortSignal.any([other, deadline]) } : wire;
      return parseFetch(wire, await command(line, "fetch", fetchArguments(asked, canFilter), packLimits.pack));
    },
    refsForPush: () => refsForPush(wire),
    push: (update) => push(wire, update),
  };
}

interface Connection {
  name: string;
  root: URL;
  source: SandboxSource;
  signal: AbortSignal;
  /** The token of this operation, asked for once. */
  tokens: Map<"read" | "write", Promise<string | undefined>>;
}

function parseUrl(text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url && ["http:", "https:"].includes(url.protocol) && !url.username && !url.password) {
    url.pathname = url.pathname.replace(/\/+$/, "");
    return url;
  }
  throw new UserError("The address of the repository is not an http or https address without credentials in it.");
}

async function discover(wire: Connection): Promise<Map<string, string>> {
  const answer = await send(wire, { access: "read", method: "GET", path: "info/refs?service=git-upload-pack" });
  const lines = textLines(parsePackets(answer.body)).filter((line) => !line.startsWith("# service="));
  if (lines[0] !== "version 2") {
    throw new UserError(`The git server of ${wire.name} does not speak version 2 of git's protocol.`);
  }
  const format = lines.find((line) => line.startsWith("object-format="));
  if (format && format !== "object-format=sha1") {
    throw new UserError(`The repository ${wire.name} uses SHA-256 object names, which are not supported yet.`);
  }
  return new Map(lines.slice(1).map((line) => [line.replace(/=.*/s, ""), line.replace(/^[^=]*=?/, "")]));
}

function command(
  wire: Connection,
  name: string,
  lines: readonly string[],
  maxBytes = maxSmallResponseBytes,
): Promise<Packet[]> {
  const head = [`command=${name}\n`, `${agentName}\n`].map(encodePacket);
  const body = lines.map((line) => encodePacket(`${line}\n`));
  return send(wire, {
    access: "read",
    method: "POST",
    path: "git-upload-pack",
    body: Buffer.concat([...head, delimiterPacket, ...body, flushPacket]),
    maxBytes,
  }).then(({ body }) => parsePackets(body));
}

function parseRefs(packets: readonly Packet[]): RemoteRef[] {
  return textLines(packets).flatMap((line) => {
    const match = /^([0-9a-f]{40}) (\S+)(.*)$/.exec(line);
    if (!match?.[1] || !match[2]) return [];

    const target = / symref-target:(\S+)/.exec(match[3] ?? "")?.[1];
    return [{ oid: match[1], name: match[2], ...(target ? { target } : {}) }];
  });
}

function fetchArguments({ wants, haves = [], depth, without }: FetchRequest, canFilter: boolean): string[] {
  const filter = without === "trees" ? "tree:0" : "blob:none";
  return [
    "thin-pack",
    "no-progress",
    "ofs-delta",
    ...wants.map((oid) => `want ${oid}`),
    // What we have, we have without its history.
    ...haves.map((oid) => `shallow ${oid}`),
    `deepen ${depth}`,
    ...(without && canFilter ? [`filter ${filter}`] : []),
    ...haves.map((oid) => `have ${oid}`),
    "done",
  ];
}

function parseFetch(wire: Connection, packets: readonly Packet[]): FetchResult {
  const start = packets.findIndex((packet) => typeof packet !== "string" && packet.toString("latin1") === "packfile\n");
  const head = textLines(start === -1 ? packets : packets.slice(0, start));
  const error = head.find((line) => line.startsWith("ERR "));
  if (error) return { kind: "refused", reason: error.slice(4) };
  if (start === -1) throw new Error(`The git server of ${wire.name} sent no pack.`);

  const shallow = head.filter((line) => line.startsWith("shallow ")).map((line) => line.slice(8));
  return { kind: "pack", pack: parseSideBand(packets.slice(start + 1)).data, shallow };
}

async function refsForPush(wire: Connection): Promise<Map<string, string>> {
  const answer = await send(wire, { access: "write", method: "GET", path: "info/refs?service=git-receive-pack" });
  const refs = parseRefs(
    parsePackets(answer.body).map((packet) => (typeof packet === "string" ? packet : withoutCapabilities(packet))),
  );
  return new Map(refs.map(({ name, oid }) => [name, oid]));
}

/** The first ref carries the server's abilities behind a NUL byte. */
function withoutCapabilities(packet: Buffer): Buffer {
  const end = packet.indexOf(0);
  return end === -1 ? packet : packet.subarray(0, end);
}

async function push(
  wire: Connection,
  { branch, from, to, pack }: { branch: string; from: string | undefined; to: string; pack: Buffer },
): Promise<PushResponse> {
  const ref = `refs/heads/${branch}`;
  const line = `${from ?? noCommit} ${to} ${ref}\0 report-status side-band-64k ${agentName}`;
  const answer = await send(wire, {
    access: "write",
    method: "POST",
    path: "git-receive-pack",
    body: Buffer.concat([encodePacket(line), flushPacket, pack]),
  });
  const { data, words } = parseSideBand(parsePackets(answer.body));
  const report = textLines(parsePackets(data));
  const unpack = report.find((entry) => entry.startsWith("unpack "));
  if (unpack === "unpack ok" && report.includes(`ok ${ref}`)) return { ok: true, reason: "" };

  const refusal = report.find((entry) => entry.startsWith(`ng ${ref} `))?.slice(`ng ${ref} `.length);
  const reason = refusal ?? unpack ?? "it did not say why";
  return { ok: false, reason: await sanitizeMessage(wire, words.trim() ? `${reason}\n${words.trim()}` : reason) };
}

interface Send {
  access: "read" | "write";
  method: "GET" | "POST";
  path: string;
  body?: Buffer;
  maxBytes?: number;
}

async function send(
  wire: Connection,
  { access, method, path, body, maxBytes = maxSmallResponseBytes }: Send,
): Promise<GitResponse> {
  const service = access === "read" ? "git-upload-pack" : "git-receive-pack";
  const token = await tokenFor(wire, access);
  const headers: Record<string, string> = { "user-agent": "git/golem-forge", accept: "*/*" };
  if (access === "read") headers["git-protocol"] = "version=2";
  if (token) headers.authorization = `Basic ${Buffer.from(`x-access-token:${token}`).toString("base64")}`;
  if (body) headers["content-type"] = `application/x-${service}-request`;

  const url = new URL(`${wire.root.pathname}/${path}`, wire.root);
  const repeatable = access === "read" || method === "GET";
  const answer = await request({
    method,
    url,
    headers,
    ...(body ? { body } : {}),
    maxBytes,
    repeatable,
    signal: wire.signal,
  });
  if (answer.status === 200 && answer.type.startsWith(`application/x-${service}-`)) return answer;
  throw await errorFor(wire, access, answer);
}

async function errorFor({ name, ...wire }: Connection, access: "read" | "write", answer: GitResponse): Promise<Error> {
  const { status } = answer;
  const words = /^text\/plain/.test(answer.type)
    ? ` It says: ${await sanitizeMessage({ name, ...wire }, answer.body.toString("utf8"))}`
    : "";
  if (status >= 300 && status < 400) {
    return new UserError(`The repository ${name} has moved: the git server sends us to another address.`);
  }
  if (status === 401 || status === 403) {
    const what = access === "read" ? "read" : "push to";
    return new UserError(`The git server does not let this app ${what} ${name} (${status}).${words}`);
  }
  if (status === 404) {
    return new UserError(`There is no repository ${name}, or this app is not installed on it (404).`);
  }
  if (status === 200) return new UserError(`The address of ${name} is not a git server's.`);
  const said = `The git server of ${name} answered ${status}.${words}`;
  return status >= 500 || status === 429 ? new OutageError(said) : new Error(said);
}

function tokenFor(wire: Connection, access: "read" | "write"): Promise<string | undefined> {
  const known = wire.tokens.get(access);
  if (known !== undefined) return known;

  const token = wire.source.token(access);
  wire.tokens.set(access, token);
  // One that could not be had is asked for again.
  token.catch(() => wire.tokens.delete(access));
  return token;
}

/** What a server said, fit to be shown: short, on few lines, and without the token should it echo it. */
async function sanitizeMessage(wire: Connection, words: string): Promise<string> {
  const tokens = (await Promise.all(wire.tokens.values())).filter((token) => token !== undefined);
  const secrets = tokens.flatMap((token) => [token, Buffer.from(`x-access-token:${token}`).toString("base64")]);
  const safe = secrets.reduce((text, secret) => (secret ? text.replaceAll(secret, "[secret]") : text), words);
  return safe
    .replace(/(?!\n)\p{Cc}/gu, " ")
    .trim()
    .slice(0, maxMessageLength);
}

function textLines(packets: readonly Packet[]): string[] {
  return packets.filter((packet) => typeof packet !== "string").map((packet) => packet.toString("utf8").trimEnd());
}
