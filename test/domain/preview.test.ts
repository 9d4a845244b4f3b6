import { describe, expect, test } from "vitest";
import {
  boundPart,
  boundState,
  changesIn,
  type FileChange,
  isShownWhole,
  Preview,
  previewLength,
  textPreview,
} from "#domain/preview.ts";

const change: FileChange = { path: "a.txt", kind: "added", newMode: "100644", newBlob: "1".repeat(40), size: 5 };
const text = { kind: "text" as const, title: "Message", text: "Fix" };
const file = { kind: "file" as const, change, diff: "+hello" };
const hidden = { kind: "hidden-file" as const, change: { ...change, path: "b.bin" }, reason: "binary" as const };
const preview = (...sections: Preview["sections"]): Preview => ({ sections });

test("a preview of plain text has one section", () => {
  expect(textPreview("Hello")).toEqual(preview({ kind: "text", title: "What it would do", text: "Hello" }));
  expect(textPreview("Hello", "Body")).toEqual(preview({ kind: "text", title: "Body", text: "Hello" }));
});

test("the changes of a preview are those of shown and hidden files, in order", () => {
  expect(changesIn(preview(text, file, hidden)).map(({ path }) => path)).toEqual(["a.txt", "b.bin"]);
  expect(changesIn(undefined)).toEqual([]);
});

test("a preview is shown whole when no file is hidden", () => {
  expect(isShownWhole(undefined)).toBe(true);
  expect(isShownWhole(preview(text, file))).toBe(true);
  expect(isShownWhole(preview(file, hidden))).toBe(false);
});

describe("the length of a preview", () => {
  test.each<[string, Preview["sections"], number]>([
    ["of nothing is 0", [], 0],
    ["of a text counts its characters", [{ ...text, text: "x".repeat(100) }], 100],
    ["counts a line as 40 characters at least", [{ ...text, text: "a\nb\nc\n" }], 120],
    ["counts lines at the start and in a row", [{ ...text, text: "\n\n\n" }], 120],
    ["of a file counts its path and its diff", [{ ...file, diff: "x".repeat(50) }], 55],
    ["of a hidden file counts its path", [hidden], 5],
    ["is the sum of the sections", [{ ...text, text: "x".repeat(100) }, hidden], 105],
  ])("%s", (_, sections, length) => {
    expect(previewLength(preview(...sections))).toBe(length);
  });
});

describe("an approval is bound to", () => {
  test("texts, the changes of files without their layout, and bindings", () => {
    expect(boundPart({ ...preview(text, file, hidden), bindings: { main: "1f00" } })).toEqual({
      sections: [text, change, hidden.change],
      bindings: { main: "1f00" },
    });
    expect(boundPart(preview())).toEqual({ sections: [], bindings: {} });
    expect(boundPart(undefined)).toBeUndefined();
  });

  test("the state before the call, when its arguments were changed", () => {
    const modified = { ...file, change: { ...change, oldMode: "100644" as const, oldBlob: "2".repeat(40) } };

    expect(boundState({ ...preview(text, modified), bindings: { main: "1f00" } })).toEqual({
      files: [{ path: "a.txt", oldMode: "100644", oldBlob: "2".repeat(40) }],
      bindings: { main: "1f00" },
    });
    expect(boundState({ ...preview(file), filesFixed: true })).toEqual({ files: [change], bindings: {} });
    expect(boundState(undefined)).toBeUndefined();
  });
});

test("no field of a preview is lost when it is stored", () => {
  const change = {
    ...{ path: "a.txt", kind: "modified" as const, oldMode: "100644" as const, newMode: "100755" as const },
    ...{ oldBlob: "a".repeat(40), newBlob: "b".repeat(40), size: 5 },
  };
  const hidden = (["binary", "too large", "contains a secret"] as const).map((reason) => {
    return { kind: "hidden-file" as const, change, reason };
  });
  const shown = [
    { kind: "text" as const, title: "Message", text: "Fix" },
    { kind: "file" as const, change, diff: "+a" },
  ];
  const preview = { sections: [...shown, ...hidden], bindings: { "commit of main": "c" }, filesFixed: true };

  expect(Preview.parse(JSON.parse(JSON.stringify(preview)))).toEqual(preview);
});
