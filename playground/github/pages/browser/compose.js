import { element } from "./dom.js";

const remembered = "golem-forge-person";

/** Whom one acts as; kept for this browser tab. */
export function personChoice(people) {
  const chosen = sessionStorage.getItem(remembered) ?? people[0];
  const roles = { maintainer: "admin", contributor: "write", visitor: "read" };
  const select = element(
    "select",
    { id: "person", name: "as", onchange: () => sessionStorage.setItem(remembered, select.value) },
    people.map((login) =>
      element("option", { value: login, selected: login === chosen }, `${login} (${roles[login] ?? "read"})`),
    ),
  );
  return { select, label: element("label", { for: "person" }, "Write as") };
}

/** The box under a thread: whom to write as, quick replies, the text, and what to do with it. */
export function commentBox({ people, submit, toggle }) {
  const { select, label } = personChoice(people);
  const problem = problemLine();
  const text = element("textarea", {
    id: "comment",
    name: "body",
    rows: 4,
    placeholder: "Write a comment, or a command such as /run fixer",
    onkeydown: (event) => {
      if (event.key === "Enter" && (event.metaKey || event.ctrlKey)) form.requestSubmit();
    },
  });
  const fill = (words, { select: [start, end] = [words.length, words.length] } = {}) => {
    text.value = words;
    text.focus();
    text.setSelectionRange(start, end);
  };
  const quick = (title, words, options) =>
    element("button", { type: "button", class: "quick", onclick: () => fill(words, options) }, title);
  const because = "/deny because ";
  const form = element(
    "form",
    {
      class: "box compose",
      onsubmit: (event) => {
        event.preventDefault();
        void attempt(form, problem, async () => {
          await submit({ as: select.value, body: text.value });
          text.value = "";
        });
      },
    },
    element("h2", { class: "hidden" }, "Write a comment"),
    element("div", { class: "row" }, label, select),
    element(
      "div",
      { class: "row quicks", role: "group", "aria-label": "Put a command into the comment" },
      quick("Run fixer", "/run fixer"),
      quick("Approve", "/approve"),
      quick("Deny…", because),
      quick("Stop", "/stop"),
      quick("Resume", "/resume"),
      quick("Status", "/status"),
      quick("Help", "/help"),
    ),
    element("label", { for: "comment", class: "hidden" }, "Comment"),
    text,
    problem,
    element(
      "div",
      { class: "row end" },
      element(
        "button",
        { type: "button", onclick: () => void attempt(form, problem, () => toggle.act(select.value)) },
        toggle.title,
      ),
      element("button", { type: "submit", class: "primary" }, "Comment"),
    ),
  );
  return form;
}

/** The form for a new issue. */
export function issueForm({ people, submit }) {
  const { select, label } = personChoice(people);
  const problem = problemLine();
  const title = element("input", { id: "title", name: "title", required: true, maxlength: 256, autocomplete: "off" });
  const text = element("textarea", { id: "body", name: "body", rows: 10 });
  const form = element(
    "form",
    {
      class: "box compose",
      onsubmit: (event) => {
        event.preventDefault();
        void attempt(form, problem, () => submit({ as: select.value, title: title.value, body: text.value }));
      },
    },
    element("div", { class: "row" }, label, select),
    element("label", { for: "title" }, "Title"),
    title,
    element("label", { for: "body" }, "What is wrong, or missing? Markdown works."),
    text,
    problem,
    element("div", { class: "row end" }, element("button", { type: "submit", class: "primary" }, "Open the issue")),
  );
  return form;
}

function problemLine() {
  return element("p", { class: "problem", role: "alert", hidden: true });
}

async function attempt(form, problem, work) {
  const buttons = [...form.querySelectorAll("button")];
  for (const button of buttons) button.disabled = true;
  problem.hidden = true;
  try {
    await work();
  } catch (error) {
    problem.textContent = error.message;
    problem.hidden = false;
  } finally {
    for (const button of buttons) button.disabled = false;
  }
}
