/** A time as everyone reads it, to the minute: `2026-05-04 10:00 UTC`. */
export function utc(at: number): string {
  return `${new Date(at).toISOString().slice(0, 16).replace("T", " ")} UTC`;
}
