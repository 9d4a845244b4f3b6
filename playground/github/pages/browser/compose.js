import { attempt, button, element, problemLine } from "./dom.js";

const storageKey = "golem-forge-person";

/** Returns the person to act as, stored for this browser tab. */
export function currentPerson(people) {
  const stored = sessionStorage.getItem(storageKey);
  return people.includes(stored) ? stored : people[0];
}

function personChoice(people) {
  const chosen = currentPerson(people);
  const roles = { maintainer: "admin", contributor: "write", visitor: "read" };
  const select = element(
    "select",
    { id: "person", name: "as", onchange: () => sessionStorage.setItem(storageKey, select.value) },
    people.map((login) =>
      element("option", { value: login, selected: login === chosen }, `${login} (${roles[login] ?? "read"})`),
    ),
  );
  return { select, label: element("label", { for: "person" }, "Act as") };
}

/** Creates the form below a conversation: the person to act as, quick replies, the comment, and other actions. */
export function commentBox({ people, submit, actions }) {
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
  const fill = (command) => {
    text.value = command;
    text.focus();
    text.setSelectionRange(command.length, command.length);
  };
  const quick = (title, command) => button(title, () => fill(command), { class: "quick" });
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
      { class: "row quicks", role: "group", "aria-label": "Insert a command" },
      quick("Run fixer", "/run fixer"),
      quick("Approve", "/approve"),
      quick("Deny…", "/deny because "),
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
      actions.map(({ title, act }) => button(title, () => void attempt(form, problem, () => act(select.value)))),
      element("button", { type: "submit", class: "primary" }, "Comment"),
    ),
  );
  return form;
}

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
    element("label", { for: "body" }, "Description (Markdown)"),
    text,
    problem,
    element("div", { class: "row end" }, element("button", { type: "submit", class: "primary" }, "Create issue")),
  );
  return form;
}
