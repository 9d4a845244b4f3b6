import { button, element } from "./dom.js";

/** Creates an element with HTML that the server has rendered. */
export function rendered(html, attributes = {}) {
  const node = element("div", attributes);
  node.innerHTML = html;
  return node;
}

/** Shows the files of a pull request. With a `draft` review, each line has a button for comments. */
export function changedFiles({ changes, paths }, draft) {
  const view = rendered(changes);
  if (!draft) return view;
  for (const [index, file] of [...view.querySelectorAll(".reviewed")].entries()) {
    for (const row of file.querySelectorAll(".diff [data-old]:not(.meta, .hunk)"))
      addLineComments(row, paths[index], draft);
    addFileComments(file, paths[index], draft);
  }
  return view;
}

function addFileComments(file, path, draft) {
  const target = { path, side: "RIGHT" };
  const edit = button("Comment on this file", () => draft.edit(target), { class: "quick" });
  file.querySelector("summary").after(edit, ...remarks(target, draft));
}

function addLineComments(row, path, draft) {
  const isRemoved = row.classList.contains("removed");
  const line = Number(isRemoved ? row.dataset.old : row.dataset.new);
  const target = { path, side: isRemoved ? "LEFT" : "RIGHT", line };
  const edit = button("+", () => draft.edit(target), { class: "add", "aria-label": `Comment on line ${line}` });
  row.prepend(edit);
  row.after(...remarks(target, draft));
}

/** Returns the comments on a line or a file, and the editor of a new one. */
function remarks(target, draft) {
  const comments = draft.comments.filter((one) => isSameLine(one, target)).map((one) => draftedComment(one, draft));
  const isEdited = draft.editing && isSameLine(draft.editing, target);
  return [...comments, ...(isEdited ? [editor(target, draft)] : [])];
}

function isSameLine(one, other) {
  return one.path === other.path && one.side === other.side && one.line === other.line;
}

function draftedComment(comment, draft) {
  const remove = button("Remove", () => draft.remove(comment), { class: "quick" });
  return element("div", { class: "remark" }, element("p", {}, comment.body), remove);
}

function editor(target, draft) {
  const place = target.line === undefined ? target.path : `line ${target.line}`;
  const text = element("textarea", { rows: 3, "aria-label": `Comment on ${place}` });
  const add = () => text.value.trim() !== "" && draft.add({ ...target, body: text.value });
  queueMicrotask(() => text.focus());
  return element(
    "div",
    { class: "remark" },
    text,
    element(
      "div",
      { class: "row end" },
      button("Cancel", () => draft.edit(undefined)),
      button("Add to review", add, { class: "primary" }),
    ),
  );
}
