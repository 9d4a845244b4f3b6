/** The text of the doc comment right above an exported function, on one line and up to its first tag; undefined where there is none. */
export function docComment(source: string, name: string): string | undefined {
  const escaped = name.replaceAll("$", "\\$");
  const exported = new RegExp(
    `/\\*\\*((?:(?!\\*/)[\\s\\S])*)\\*/\\s*export\\s+(?:async\\s+)?(?:function\\s*\\*?|const|let|var)\\s+${escaped}(?![\\w$])`,
  );
  const comment = exported.exec(source)?.[1];
  if (comment === undefined) return undefined;

  const lines = comment.split("\n").map((line) => line.replace(/^\s*\*?\s?/, "").trim());
  const tags = lines.findIndex((line) => line.startsWith("@"));
  const text = lines
    .slice(0, tags === -1 ? undefined : tags)
    .join(" ")
    .replace(/\s+/g, " ")
    .trim();
  return text || undefined;
}
