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

/** Creates the same error for an unknown run and a wrong link, so that guessing reveals nothing. */
export function runNotFound(): PageError {
  return new PageError(404, "Run not found. Open it from the link in its issue.", { href: "/runs", text: "All runs" });
}
