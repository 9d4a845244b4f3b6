import { element } from "./dom.js";

/** The files a pull request changes, with their lines. */
export function changedFiles({ files }) {
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
    files.map(fileNode),
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

function fileNode(file) {
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
      ? element("p", { class: "quiet" }, "No text to show: a binary file, or one that only moved.")
      : element("div", { class: "scroll" }, patchTable(file.patch)),
  );
}

function patchTable(patch) {
  let left = 0;
  let right = 0;
  const rows = patch.split("\n").map((line) => {
    const hunk = /^@@ -(\d+)(?:,\d+)? \+(\d+)/.exec(line);
    if (hunk) {
      left = Number(hunk[1]);
      right = Number(hunk[2]);
      return element("tr", { class: "hunk" }, element("td", { colspan: 3 }, line));
    }
    const kind = { "+": "added", "-": "removed", "\\": "meta" }[line[0]] ?? "";
    const number = (shown, value) => element("td", { class: "number" }, shown ? String(value) : "");
    return element(
      "tr",
      { class: kind },
      number(kind !== "added" && kind !== "meta", kind === "added" || kind === "meta" ? 0 : left++),
      number(kind !== "removed" && kind !== "meta", kind === "removed" || kind === "meta" ? 0 : right++),
      element("td", { class: "text" }, line),
    );
  });
  return element("table", { class: "diff" }, element("tbody", {}, rows));
}
