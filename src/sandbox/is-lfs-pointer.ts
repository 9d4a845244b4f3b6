const start = "version https://git-lfs.github.com/spec/";
// A pointer is a few short lines; what is larger is a real file that happens to start like one.
const maxBytes = 1_024;

/** True when the content only stands for a file that Git LFS keeps elsewhere. */
export function isLfsPointer(content: Uint8Array): boolean {
  if (content.length > maxBytes) return false;

  const text = Buffer.from(content).toString("utf8");
  return text.startsWith(start) && /^oid sha256:[0-9a-f]{64}$/m.test(text) && /^size \d+$/m.test(text);
}
