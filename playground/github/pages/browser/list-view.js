import { issueForm } from "./compose.js";
import { ago, element, stateBadge } from "./dom.js";
import { load, send } from "./server.js";

/** Creates the list of a repository's issues and pull requests. */
export function listView({ repository }) {
  const rows = element("div", {});
  const node = element("div", {}, rows);
  let drawn = "";

  async function refresh() {
    const data = await load(`/-/repositories/${repository}/threads`);
    const seen = JSON.stringify(data);
    if (seen === drawn) return;
    drawn = seen;
    rows.replaceChildren(heading(repository, data), listOf(repository, data.threads));
  }

  return { node, refresh, title: repository };
}

function heading(repository, { description, cloneUrl }) {
  return element(
    "div",
    { class: "heading" },
    element("div", {}, element("h1", {}, "Issues and pull requests"), element("p", { class: "quiet" }, description)),
    element("a", { class: "button primary", href: `/${repository}/issues/new` }, "New issue"),
    element("p", { class: "quiet wide" }, "git clone ", element("code", {}, `${location.origin}${cloneUrl}`)),
  );
}

function listOf(repository, threads) {
  if (threads.length === 0) return element("p", { class: "box quiet empty" }, "No issues yet. Create the first one.");

  const items = threads.map((thread) =>
    element(
      "li",
      {},
      stateBadge(thread),
      element(
        "div",
        { class: "what" },
        element(
          "a",
          { href: `/${repository}/${thread.kind === "pull" ? "pull" : "issues"}/${thread.number}` },
          thread.title,
        ),
        " ",
        thread.labels.map((name) => element("span", { class: "tag" }, name)),
        element(
          "p",
          { class: "quiet" },
          `#${thread.number} by ${thread.author.login} `,
          ago(thread.createdAt),
          ` · ${thread.comments} ${thread.comments === 1 ? "comment" : "comments"}`,
        ),
      ),
    ),
  );
  return element("ul", { class: "box threads" }, items);
}

export function newIssueView({ repository, people, visit }) {
  const submit = async (issue) => {
    const { number } = await send(`/-/repositories/${repository}/threads`, issue);
    visit(`/${repository}/issues/${number}`);
  };
  const node = element("div", {}, element("h1", {}, "New issue"), issueForm({ people, submit }));
  return { node, refresh: async () => {}, title: `New issue in ${repository}` };
}
