/** Quotes a path as git does in the header of a diff. */
export function quotePath(path: string): string {
  return /["\\]/.test(path) ? JSON.stringify(path) : path;
}

/** Decodes a path that git may have quoted, with bytes outside of ASCII as octal escapes or as they are. */
export function unquotePath(path: string): string {
  if (!/^".*"$/.test(path)) return path;
  const bytes = Buffer.from(path.slice(1, -1), "utf8").toString("latin1");
  const decoded = bytes.replace(/\\(?:([0-7]{3})|(["\\]))/g, (_, octal?: string, character = "") =>
    octal === undefined ? character : String.fromCharCode(Number.parseInt(octal, 8)),
  );
  return Buffer.from(decoded, "latin1").toString("utf8");
}
