/** The hidden line that names a comment of ours for ever. It is always the last one. */
export function markerOf(name: string): string {
  return `<!-- golem-forge:${encodeURIComponent(name).replaceAll("--", "%2D%2D")} -->`;
}

/** True for the body of the comment of this name. What stands elsewhere in a comment was not put there as its marker. */
export function carriesMarker(body: string, name: string): boolean {
  return body.trimEnd().split("\n").at(-1)?.trim() === markerOf(name);
}
