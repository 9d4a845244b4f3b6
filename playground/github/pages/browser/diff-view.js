import { button, element } from "./dom.js";

/** Creates an element with HTML that the server has rendered. */
export function rendered(html, attributes = {}) {
  const node = element("div", attributes);
  node.innerHTML = html;
  return node;
}

/**
 * Creates the view of the files that a pull request changes. With a `draft` review, each line has a button that adds a
 * comment; the draft calls back when it changes.
 */
export function changedFiles({ changes, paths }, draft) {
  const view = rendered(changes);
  if (!draft) return view;
  for (const [index, file] of [...view.querySelectorAll(".reviewed")].entries()) {
    for (const row of file.querySelectorAll(".diff [data-old]:not(.meta, .hunk)"))
      addComments(row, paths[index], draft);
  }
  return view;
}

/** Adds to a line of a diff its button, its comments, and the editor of a new one. */
function addComments(row, path, draft) {
  const isRemoved = row.classList.contains("removed");
  const line = Number(isRemoved ? row.dataset.old : row.dataset.new);
  const target = { path, side: isRemoved ? "LEFT" : "RIGHT", line };
  const edit = button("+", () => draft.edit(target), { class: "add", "aria-label": `Comment on line ${line}` });
  row.prepend(edit);
  const comments = draft.comments.filter((one) => isSameLine(one, target)).map((one) => draftedComment(one, draft));
  const isEdited = draft.editing && isSameLine(draft.editing, target);
  row.after(...comments, ...(isEdited ? [editor(target, draft)] : []));
}

function isSameLine(one, other) {
  return one.path === other.path && one.side === other.side && one.line === other.line;
}

function draftedComment(comment, draft) {
  const remove = button("Remove", () => draft.remove(comment), { class: "quick" });
  return element("div", { class: "remark" }, element("p", {}, comment.body), remove);
}

function editor(target, draft) {
  const text = element("textarea", { rows: 3, "aria-label": `Comment on line ${target.line}` });
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
