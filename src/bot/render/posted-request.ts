import { type Approval, answersOf } from "#domain/approval.ts";
import { markerOf } from "#text/comment-marker.ts";
import { redactDeep } from "#text/redact.ts";
import { checkboxOf, renderApproval, renderBeforeApproval } from "./render-approval.ts";

interface PostedComment {
  name: string;
  /** The comment as it may be in the thread. There are several texts while answers of several people are being added. */
  bodies: string[];
}

interface Rendering {
  redact: (text: string) => string;
  sanitize: (text: string) => string;
  /** The link to the run's page. */
  page: string | undefined;
}

/** Returns the comments of a pending request as this app posts them, the request itself last. */
export function postedComments(approval: Approval, { redact, sanitize, page }: Rendering): PostedComment[] {
  const shown = redactDeep(approval, redact);
  const name = `approval/${approval.id}`;
  const asPosted = (text: string, name: string) => `${sanitize(text).trimEnd()}\n\n${markerOf(name)}`;
  const parts = renderBeforeApproval(shown).map((text, index) => {
    const partName = `${name}/${index + 1}`;
    return { name: partName, bodies: [asPosted(text, partName)] };
  });
  const bodies = statesOf(shown).map((state) => asPosted(renderApproval(state, page), name));
  return [...parts, { name, bodies }];
}

/** The request before the first answer and after each one. */
function statesOf({ quorums, ...approval }: Approval): Approval[] {
  if (!quorums) return [approval];
  const logins = answersOf({ ...approval, quorums }).map(({ by }) => by);
  const after = (count: number) =>
    quorums.map((quorum) => ({ ...quorum, by: quorum.by.filter((login) => logins.slice(0, count).includes(login)) }));
  const counts = [0, ...logins.keys().map((index) => index + 1)];
  return [approval, ...counts.map((count) => ({ ...approval, quorums: after(count) }))];
}

/** True if a comment of a request has one of the texts with which it was posted. */
export function isAsPosted({ bodies }: PostedComment, body: string): boolean {
  return bodies.some((posted) => normalize(posted) === normalize(body));
}

/** True if the only difference from the posted request is the tick in its box. */
export function isOnlyTicked(posted: PostedComment, approvalId: string, body: string): boolean {
  const box = checkboxOf(approvalId);
  return posted.bodies.some((text) => {
    const at = text.lastIndexOf(box);
    const ticked = text.slice(0, at) + box.replace("[ ]", "[x]") + text.slice(at + box.length);
    return at >= 0 && normalize(body) === normalize(ticked);
  });
}

/** A browser sends other line ends than the app, and may leave out spaces at the end. */
function normalize(body: string): string {
  return body.replace(/\r\n?/g, "\n").replace("- [X] ", "- [x] ").trimEnd();
}
