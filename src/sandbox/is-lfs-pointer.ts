const start = "version https://git-lfs.github.com/spec/";
// A pointer has a few short lines. A larger file only starts like one.
const maxBytes = 1_024;

/** True when the content is a pointer to a file in Git LFS. */
export function isLfsPointer(content: Uint8Array): boolean {
  if (content.length > maxBytes) return false;

  const text = Buffer.from(content).toString("utf8");
  return text.startsWith(start) && /^oid sha256:[0-9a-f]{64}$/m.test(text) && /^size \d+$/m.test(text);
}
