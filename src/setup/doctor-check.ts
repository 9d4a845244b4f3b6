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

export function warning(name: string, detail: string, fix?: string): DoctorCheck {
  return { name, status: "warning", detail, ...(fix !== undefined && { fix }) };
}

export function failure(name: string, detail: string, fix?: string): DoctorCheck {
  return { name, status: "problem", detail, ...(fix !== undefined && { fix }) };
}
