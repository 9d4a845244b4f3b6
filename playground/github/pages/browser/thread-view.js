import { commentBox } from "./compose.js";
import { changedFiles } from "./diff-view.js";
import { ago, authorName, element, stateBadge } from "./dom.js";
import { load, send } from "./server.js";

/** One issue or pull request; posts are drawn once and only redrawn when they change. */
export function threadView({ repository, number, people, announce }) {
  const path = `/-/repositories/${repository}/threads/${number}`;
  const heading = element("div", {});
  const posts = element("div", { class: "posts" });
  const files = element("div", {});
  const box = element("div", {});
  const node = element("div", {}, heading, posts, files, box);
  const drawn = new Map();

  async function refresh() {
    const thread = await load(path);
    redraw("heading", headingData(thread), heading, () => [threadHeading(thread)]);
    for (const post of thread.posts) drawPost(post);
    redraw("files", thread.files, files, () => [thread.files ? changedFiles(thread) : ""]);
    redraw("box", thread.state, box, () => [composer(thread)]);
  }

  function redraw(key, data, target, draw) {
    const seen = JSON.stringify(data ?? null);
    if (drawn.get(key) === seen) return;
    drawn.set(key, seen);
    target.replaceChildren(...draw());
  }

  function drawPost(post) {
    const id = `post-${post.id}`;
    const seen = JSON.stringify(post);
    if (drawn.get(id) === seen) return;
    const isNew = !drawn.has(id);
    drawn.set(id, seen);
    const fresh = postNode(post, id);
    const old = document.getElementById(id);
    if (old) keepOpenDetails(old, fresh);
    if (old) old.replaceWith(fresh);
    else posts.append(fresh);
    if (isNew && drawn.has("box")) announce(`${post.author.login} wrote a comment.`);
  }

  function composer(thread) {
    const open = thread.state !== "closed" && thread.state !== "merged";
    return commentBox({
      people,
      submit: async (comment) => {
        await send(`${path}/comments`, comment);
        await refresh();
      },
      toggle: {
        title: open ? "Close" : "Reopen",
        act: async (as) => {
          await send(`${path}/state`, { as, state: open ? "closed" : "open" });
          await refresh();
        },
      },
    });
  }

  return { node, refresh, title: `#${number} in ${repository}` };
}

function headingData({ title, state, labels, head, base }) {
  return { title, state, labels, head, base };
}

function threadHeading(thread) {
  const { author, title, number, createdAt, labels, head, base } = thread;
  const what = head
    ? [" wants to merge ", element("code", {}, head), " into ", element("code", {}, base), " · opened "]
    : [" opened this issue "];
  return element(
    "div",
    { class: "heading thread" },
    element("h1", {}, title, " ", element("span", { class: "quiet" }, `#${number}`)),
    element(
      "p",
      { class: "quiet" },
      stateBadge(thread),
      " ",
      authorName(author),
      what,
      ago(createdAt),
      " ",
      labels.map((name) => element("span", { class: "tag" }, name)),
    ),
  );
}

function postNode({ author, role, createdAt, edited, html, reactions }, id) {
  const body = element("div", { class: "markdown" });
  // Rendered and sanitised by the server; the content security policy stops what might still slip through.
  body.innerHTML = html === "" ? "<p><em>No words.</em></p>" : html;
  markDiffs(body);
  return element(
    "article",
    { id, class: author.bot ? "post bot" : "post", "aria-label": `Comment by ${author.login}` },
    element("img", { src: author.avatar, alt: "", width: 40, height: 40 }),
    element(
      "div",
      { class: "box" },
      element(
        "header",
        {},
        element("span", {}, authorName(author), " ", ago(createdAt), edited && " · edited"),
        !author.bot &&
          role !== "read" &&
          element("span", { class: "tag" }, role === "admin" ? "Maintainer" : "Collaborator"),
      ),
      body,
      reactions.length > 0 &&
        element(
          "footer",
          {},
          reactions.map(({ symbol, by }) =>
            element("span", { class: "reaction", title: by.join(", ") }, `${symbol} ${by.length}`),
          ),
        ),
    ),
  );
}

/** Colours the lines of diffs in comments. */
function markDiffs(body) {
  for (const code of body.querySelectorAll("code.language-diff")) {
    const lines = code.textContent.replace(/\n$/, "").split("\n");
    const kind = (line) =>
      /^(\+\+\+|---|diff |index )/.test(line) ? "meta" : { "+": "added", "-": "removed", "@": "hunk" }[line[0]];
    code.replaceChildren(...lines.map((line) => element("span", { class: `line ${kind(line) ?? ""}` }, `${line}\n`)));
  }
}

/** A reader who opened the log of a comment keeps it open when the comment changes. */
function keepOpenDetails(old, fresh) {
  const before = [...old.querySelectorAll("details")];
  for (const [index, details] of [...fresh.querySelectorAll("details")].entries()) {
    if (before[index]) details.open = before[index].open;
  }
}
