import { type Approval, answersOf } from "./approval.ts";
import type { Account } from "./github.ts";

/** The trailers of a commit message: the run that made the commit, and the people who requested and approved it. */
export interface CommitTrailers {
  runId: string;
  requestedBy: Account;
  /** Undefined for a commit that needed no approval. */
  approval?: { id: string; digest: string; by: readonly Account[] } | undefined;
}

const names = ["Golem-Forge-Run", "Requested-By", "Approved-By"] as const;

/** Appends trailers to a message, and quotes lines of it that look like them or that make GitHub skip checks. */
export function withTrailers(message: string, { runId, requestedBy, approval }: CommitTrailers): string {
  // A line begins after each of these characters, so blanks before a name do not include them.
  const blanks = "[^\\S\\n\\r\\u2028\\u2029]*";
  const lookalike = new RegExp(`^${blanks}(?=(?:${names.join("|")}|skip-checks)[^\\S\\n]*:)`, "gim");
  const trailers = [
    `Golem-Forge-Run: ${runId}`,
    `Requested-By: ${formatAccount(requestedBy)}`,
    ...(approval?.by ?? []).map(
      (person) => `Approved-By: ${formatAccount(person)} ${approval?.id} sha256:${approval?.digest}`,
    ),
  ];
  return `${message.replace(lookalike, "> ").trimEnd()}\n\n${trailers.join("\n")}`;
}

function formatAccount({ login, id }: Account): string {
  return `${login} <${id === undefined ? "" : `${id}+`}${login}@users.noreply.github.com>`;
}

/** The trailers of a commit message, as `golem audit verify` reads them. */
export interface ParsedTrailers {
  runId: string | undefined;
  requestedBy: string | undefined;
  approvals: { login: string; accountId: number | undefined; approvalId: string; digest: string }[];
}

/** Reads the trailers of a commit message: those of its last paragraph. */
export function parseTrailers(message: string): ParsedTrailers {
  const lines = (
    message
      .trimEnd()
      .split(/\n[^\S\n]*\n/)
      .at(-1) ?? ""
  ).split("\n");
  const valuesOf = (name: (typeof names)[number]) =>
    lines.filter((line) => line.startsWith(`${name}: `)).map((line) => line.slice(name.length + 2).trim());
  return {
    runId: valuesOf("Golem-Forge-Run")[0],
    requestedBy: valuesOf("Requested-By")[0],
    approvals: valuesOf("Approved-By").flatMap((value) => {
      const match = /^(\S+) <(?:(\d+)\+)?[^>]*> (\S+) sha256:([0-9a-f]{64})$/.exec(value);
      if (!match) return [];
      const [, login = "", id, approvalId = "", digest = ""] = match;
      return [{ login, accountId: id === undefined ? undefined : Number(id), approvalId, digest }];
    }),
  };
}

/** The sections that the app writes into the description of a pull request. */
type SectionName = "approvals" | "evidence";

/** Adds a section of the app to the description of a pull request, replaces it, or removes it without content. */
export function withSection(body: string, name: SectionName, content: string | undefined): string {
  const [first, last] = [`<!-- golem-forge: ${name} -->`, `<!-- /golem-forge: ${name} -->`];
  const start = body.indexOf(first);
  const end = body.indexOf(last, start);
  const isThere = start >= 0 && end >= 0;
  const before = isThere ? body.slice(0, start).trimEnd() : body.trimEnd();
  const after = isThere ? body.slice(end + last.length) : "";
  return content === undefined ? before + after : `${before}\n\n${first}\n${content}\n${last}${after}`.trimStart();
}

/**
 * Adds or replaces the section about approvals in the description of a pull request. It lists the approved calls with the
 * digests of the requests that were shown. It is generated from the store, not by the model.
 */
export function withApprovalsSection(body: string, approvals: readonly Approval[]): string {
  const used = approvals.filter(({ status }) => status === "used");
  if (used.length === 0) return withSection(body, "approvals", undefined);
  const rows = used.map((approval) => {
    const by = answersOf(approval).map(
      (answer) => `\`${plain(answer.by)}\`${answer.via === "page" ? " on the run page" : ""}`,
    );
    const at = new Date(approval.decidedAt ?? approval.requestedAt).toISOString().slice(0, 16).replace("T", " ");
    return `| \`${plain(approval.tool)}\` | ${by.join(", ")} | ${at} UTC | \`${approval.id}\` \`${approval.digest.slice(0, 12)}\` |`;
  });
  const table = ["| call | approved by | when | approval, digest |", "|---|---|---|---|", ...rows].join("\n");
  return withSection(body, "approvals", `### Approvals\n\n${table}`);
}

/** Keeps only characters without a meaning in Markdown. */
function plain(text: string): string {
  return text.replace(/[^\w.[\]-]/g, "_").slice(0, 100);
}
