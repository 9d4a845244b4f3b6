import { button, element } from "./dom.js";

/**
 * Creates the view of the files that a pull request changes. With a `draft` review, each line has a button that adds a
 * comment; the draft calls back when it changes.
 */
export function changedFiles({ files }, draft) {
  const sum = (field) => files.reduce((total, file) => total + file[field], 0);
  return element(
    "section",
    { class: "files" },
    element(
      "h2",
      {},
      `${files.length} ${files.length === 1 ? "file" : "files"} changed `,
      counts({ additions: sum("additions"), deletions: sum("deletions") }),
    ),
    files.map((file) => fileNode(file, draft)),
  );
}

function counts({ additions, deletions }) {
  return element(
    "span",
    { class: "counts" },
    element("span", { class: "plus" }, `+${additions}`),
    " ",
    element("span", { class: "minus" }, `−${deletions}`),
  );
}

function fileNode(file, draft) {
  return element(
    "details",
    { class: "box file", open: true },
    element(
      "summary",
      {},
      element("code", {}, file.path),
      " ",
      counts(file),
      file.status !== "modified" && ` ${file.status}`,
    ),
    file.patch === ""
      ? element("p", { class: "quiet" }, "No text to show: the file is binary or was only moved.")
      : element("div", { class: "scroll" }, patchTable(file.patch, { path: file.path, draft })),
  );
}

/** Creates a table of the lines of a patch with their numbers. */
export function patchTable(patch, { path, draft } = {}) {
  let left = 0;
  let right = 0;
  const rows = patch.split("\n").flatMap((line) => {
    const hunk = /^@@ -(\d+)(?:,\d+)? \+(\d+)/.exec(line);
    if (hunk) {
      left = Number(hunk[1]);
      right = Number(hunk[2]);
      return [element("tr", { class: "hunk" }, element("td", { colspan: 3 }, line))];
    }
    const kind = { "+": "added", "-": "removed", "\\": "meta" }[line[0]] ?? "";
    if (kind === "meta") return [lineRow({ kind, text: line })];
    const numbers = { left: kind === "added" ? undefined : left++, right: kind === "removed" ? undefined : right++ };
    const target =
      kind === "removed" ? { path, side: "LEFT", line: numbers.left } : { path, side: "RIGHT", line: numbers.right };
    const comments = (draft?.comments ?? []).filter((one) => isSameLine(one, target));
    return [
      lineRow({ kind, text: line, ...numbers, add: draft && (() => draft.edit(target)) }),
      ...comments.map((comment) => commentRow(comment, draft)),
      ...(draft?.editing && isSameLine(draft.editing, target) ? [editorRow(target, draft)] : []),
    ];
  });
  return element("table", { class: "diff" }, element("tbody", {}, rows));
}

function isSameLine(one, other) {
  return one.path === other.path && one.side === other.side && one.line === other.line;
}

function lineRow({ kind, text, left, right, add }) {
  return element(
    "tr",
    { class: kind },
    element("td", { class: "number" }, left ?? ""),
    element("td", { class: "number" }, right ?? ""),
    element(
      "td",
      { class: "text" },
      add && button("+", add, { class: "add", "aria-label": `Comment on line ${right ?? left}` }),
      text,
    ),
  );
}

function commentRow(comment, draft) {
  const remove = button("Remove", () => draft.remove(comment), { class: "quick" });
  return element("tr", {}, element("td", { colspan: 3, class: "remark" }, element("p", {}, comment.body), remove));
}

function editorRow(target, draft) {
  const text = element("textarea", { rows: 3, "aria-label": `Comment on line ${target.line}` });
  const add = () => text.value.trim() !== "" && draft.add({ ...target, body: text.value });
  queueMicrotask(() => text.focus());
  return element(
    "tr",
    {},
    element(
      "td",
      { colspan: 3, class: "remark" },
      text,
      element(
        "div",
        { class: "row end" },
        button("Cancel", () => draft.edit(undefined)),
        button("Add to review", add, { class: "primary" }),
      ),
    ),
  );
}
