import { type Html, html } from "#text/html.ts";

/** The person who views a run page. */
export type Viewer =
  /** This deployment has no sign-in. */
  | { kind: "anonymous" }
  | { kind: "signed-out"; signInPath: string }
  /** `canCommand`: they had write access a moment ago. GitHub is asked again for each command. */
  | { kind: "signed-in"; login: string; formKey: string; canCommand: boolean };

/** The request data that the parts of a run page need. */
export interface PageContext {
  viewer: Viewer;
  /** The path of the run page, without a trailing slash. */
  path: string;
  /** The issue or pull request in a browser. */
  threadUrl: string;
  /** The repository in a browser. */
  repositoryUrl: string;
  now: number;
}

/** Renders the field that proves that a form comes from one of our pages. */
export function formKeyField(formKey: string): Html {
  return html`<input type="hidden" name="form" value="${formKey}">`;
}
