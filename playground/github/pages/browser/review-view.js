import { currentPerson } from "./compose.js";
import { rendered } from "./diff-view.js";
import { ago, attempt, authorName, button, element, problemLine } from "./dom.js";

/** The comments of an unsubmitted review. Calls back when they change. */
export class ReviewDraft {
  comments = [];
  editing = undefined;

  constructor(onChange) {
    this.onChange = onChange;
  }

  edit(target) {
    this.editing = target;
    this.onChange();
  }

  add(comment) {
    this.comments = [...this.comments, comment];
    this.edit(undefined);
  }

  remove(comment) {
    this.comments = this.comments.filter((one) => one !== comment);
    this.onChange();
  }

  clear() {
    this.comments = [];
    this.edit(undefined);
  }
}

/** Creates the form that submits a review with the comments drafted in the diff. */
export function reviewBox({ people, draft, submit }) {
  const problem = problemLine();
  const text = element("textarea", { id: "review", rows: 3 });
  const submitAs = (event) => () =>
    void attempt(form, problem, async () => {
      const comments = draft.comments;
      await submit({ as: currentPerson(people), event, body: text.value, comments });
      draft.clear();
    });
  const count = draft.comments.length;
  const form = element(
    "form",
    { class: "box compose review", onsubmit: (event) => event.preventDefault() },
    element("h2", {}, "Review changes"),
    element(
      "p",
      { class: "quiet" },
      count === 0
        ? "Use the + next to a line to comment on it."
        : `${count} ${count === 1 ? "comment" : "comments"} will be submitted with the review.`,
    ),
    element("label", { for: "review" }, "Summary"),
    text,
    problem,
    element(
      "div",
      { class: "row end" },
      button("Comment", submitAs("COMMENT")),
      button("Approve", submitAs("APPROVE")),
      button("Request changes", submitAs("REQUEST_CHANGES"), { class: "primary" }),
    ),
  );
  return form;
}

export function reviewThread(thread, { people, post, reply, resolve }) {
  const problem = problemLine();
  const text = element("textarea", { rows: 2, "aria-label": "Reply", placeholder: "Reply" });
  const act = (action) => () => void attempt(form, problem, () => action(currentPerson(people)));
  const form = element(
    "form",
    {
      onsubmit: (event) => {
        event.preventDefault();
        act((as) => reply({ as, comment: thread.comment, body: text.value }))();
      },
    },
    text,
    problem,
    element(
      "div",
      { class: "row end" },
      button(
        thread.resolved ? "Unresolve" : "Resolve",
        act((as) => resolve({ as, comment: thread.comment, resolved: !thread.resolved })),
      ),
      element("button", { type: "submit" }, "Reply"),
    ),
  );
  const badges = [thread.outdated && "outdated", thread.resolved && "resolved"].filter(Boolean);
  return element(
    "details",
    { class: "box file", open: !thread.resolved },
    element(
      "summary",
      {},
      element("code", {}, thread.line === undefined ? thread.path : `${thread.path}:${thread.line}`),
      badges.map((badge) => element("span", { class: "tag" }, badge)),
    ),
    thread.hunk !== "" && rendered(thread.hunk),
    thread.posts.map((one) =>
      element(
        "div",
        { class: "remark" },
        element("p", { class: "quiet" }, authorName(one.author), " ", ago(one.createdAt)),
        post(one),
      ),
    ),
    form,
  );
}

const explanations = {
  unknown: "Checking whether this can be merged…",
  clean: "This branch has no conflicts with the base branch.",
  dirty: "This branch has conflicts that must be resolved.",
  unstable: "Some checks were not successful. Merging is still possible.",
  blocked: "Merging is blocked until the required checks are successful.",
  draft: "This pull request is still a draft.",
};

/** Creates the list of a pull request's checks, and the buttons that merge it or mark it as ready. */
export function mergeBox({ state, mergeability, checks }, { people, markReady, merge }) {
  const problem = problemLine();
  const act = (action) => () => void attempt(box, problem, () => action({ as: currentPerson(people) }));
  const canMerge = mergeability === "clean" || mergeability === "unstable";
  const box = element(
    "section",
    { class: "box compose", "aria-label": "Merge" },
    checks.map(({ name, result, title }) =>
      element(
        "p",
        { class: "check" },
        element("span", { class: `tag ${result}` }, result.replaceAll("_", " ")),
        ` ${name} `,
        element("span", { class: "quiet" }, title),
      ),
    ),
    element("p", {}, explanations[mergeability] ?? ""),
    problem,
    element(
      "div",
      { class: "row end" },
      state === "draft" && button("Ready for review", act(markReady)),
      state !== "draft" && button("Merge pull request", act(merge), { class: "primary", disabled: !canMerge }),
    ),
  );
  return box;
}
