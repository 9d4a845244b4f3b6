import type { ContentfulStatusCode } from "hono/utils/http-status";

/** A page that holds one message and perhaps a link. */
export interface MessagePage {
  status: ContentfulStatusCode;
  message: string;
  link?: { href: string; text: string } | undefined;
}

/** Ends a request with a message for the person. */
export class PageError extends Error implements MessagePage {
  readonly status: ContentfulStatusCode;
  readonly link: MessagePage["link"];

  constructor(status: ContentfulStatusCode, message: string, link?: MessagePage["link"]) {
    super(message);
    this.status = status;
    this.link = link;
  }
}

/** The same for a run that does not exist and for a wrong link, so that nothing can be learned by guessing. */
export function runNotFound(): PageError {
  return new PageError(404, "Run not found. Open it from the link in its issue.", { href: "/runs", text: "All runs" });
}
