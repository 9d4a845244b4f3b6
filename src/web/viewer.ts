/** Who looks at a run page. */
export type Viewer =
  /** Nobody can sign in here. */
  | { kind: "anonymous" }
  | { kind: "guest"; signInPath: string }
  /** `commands`: whether GitHub said a moment ago that they have write access. It is asked again for each command. */
  | { kind: "known"; login: string; formKey: string; commands: boolean };
