/** The result of one check, as one line of text. */
export interface DoctorCheck {
  name: string;
  status: "ok" | "warning" | "problem";
  detail: string;
  /** A sentence that says what to do; undefined if there is no problem. */
  fix?: string;
}

export function ok(name: string, detail: string): DoctorCheck {
  return { name, status: "ok", detail };
}
