import { commentBox } from "./compose.js";
import { changedFiles } from "./diff-view.js";
import { ago, authorName, element, stateBadge } from "./dom.js";
import { mergeBox, ReviewDraft, reviewBox, reviewThread } from "./review-view.js";
import { load, send } from "./server.js";

/** Creates the view of an issue or a pull request. Each part is rendered again only when its data changes. */
export function threadView({ repository, number, people, announce }) {
  const path = `/-/repositories/${repository}/threads/${number}`;
  const parts = ["heading", "posts", "merge", "files", "review", "comment"].map((name) => [
    name,
    element("div", { class: name === "posts" ? "posts" : undefined }),
  ]);
  const nodes = Object.fromEntries(parts);
  const drawn = new Map();
  const draft = new ReviewDraft(() => void drawFiles());
  let thread;

  async function refresh() {
    thread = await load(path);
    const isOpen = thread.state === "open" || thread.state === "draft";
    redraw("heading", headingData(thread), () => [threadHeading(thread)]);
    for (const post of thread.posts) drawPost(post);
    const { state, mergeability, checks } = thread;
    redraw("merge", [state, mergeability, checks], () => [
      checks && isOpen
        ? mergeBox(thread, { people, markReady: (body) => act("ready", body), merge: (body) => act("merge", body) })
        : "",
    ]);
    drawFiles();
    redraw("comment", thread.state, () => [composer(isOpen)]);
  }

  function drawFiles() {
    const { changes, state } = thread;
    const isOpen = state === "open" || state === "draft";
    const review = [draft.comments, draft.editing];
    redraw("files", [changes, isOpen, review], () => {
      if (!changes) return [""];
      const view = changedFiles(thread, isOpen ? draft : undefined);
      keepState(nodes.files, view);
      return [view];
    });
    redraw("review", [isOpen, draft.comments], () => [
      changes && isOpen ? reviewBox({ people, draft, submit: (body) => act("reviews", body) }) : "",
    ]);
  }

  async function act(what, body) {
    await send(`${path}/${what}`, body);
    await refresh();
  }

  function redraw(name, data, draw) {
    const key = JSON.stringify(data ?? null);
    if (drawn.get(name) === key) return;
    drawn.set(name, key);
    nodes[name].replaceChildren(...draw());
    for (const filter of nodes[name].querySelectorAll(".filter")) {
      filter.dispatchEvent(new Event("input", { bubbles: true }));
    }
  }

  function drawPost(post) {
    const id = `post-${post.id}`;
    const key = JSON.stringify(post);
    if (drawn.get(id) === key) return;
    const isNew = !drawn.has(id);
    drawn.set(id, key);
    const threads = (post.threads ?? []).map((one) =>
      reviewThread(one, {
        people,
        post: (reply) => markdown(reply.html),
        reply: (body) => act("replies", body),
        resolve: (body) => act("resolve", body),
      }),
    );
    const fresh = postNode(post, id, threads);
    const old = document.getElementById(id);
    if (old) keepState(old, fresh);
    if (old) old.replaceWith(fresh);
    else nodes.posts.append(fresh);
    if (isNew && drawn.has("comment")) announce(`${post.author.login} wrote a comment.`);
  }

  function composer(isOpen) {
    const toggle = {
      title: isOpen ? "Close" : "Reopen",
      act: (as) => act("state", { as, state: isOpen ? "closed" : "open" }),
    };
    const actions = thread.state === "merged" ? [] : [toggle];
    return commentBox({ people, actions, submit: (comment) => act("comments", comment) });
  }

  return { node: element("div", {}, Object.values(nodes)), refresh, title: `#${number} in ${repository}` };
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

function postNode({ author, role, createdAt, edited, html, reactions, verdict }, id, threads) {
  const isEmptyReview = verdict && html === "";
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
        element("span", {}, authorName(author), verdict ? ` ${verdict} ` : " ", ago(createdAt), edited && " · edited"),
        !author.bot &&
          role !== "read" &&
          element("span", { class: "tag" }, role === "admin" ? "Maintainer" : "Collaborator"),
      ),
      !isEmptyReview && markdown(html === "" ? "<p><em>No description.</em></p>" : html),
      threads,
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

/** Inserts HTML that the server has rendered and sanitized. The content security policy is the second line of defense. */
function markdown(html) {
  const body = element("div", { class: "markdown" });
  body.innerHTML = html;
  for (const code of body.querySelectorAll("code.language-diff")) colorDiff(code);
  return body;
}

function colorDiff(code) {
  const lines = code.textContent.replace(/\n$/, "").split("\n");
  const kind = (line) =>
    /^(\+\+\+|---|diff |index )/.test(line) ? "meta" : { "+": "added", "-": "removed", "@": "hunk" }[line[0]];
  code.replaceChildren(...lines.map((line) => element("span", { class: `line ${kind(line) ?? ""}` }, `${line}\n`)));
}

/** Keeps what the reader has opened, ticked and typed when an element is drawn again. */
function keepState(old, fresh) {
  const before = [...old.querySelectorAll("details")];
  for (const [index, details] of [...fresh.querySelectorAll("details")].entries()) {
    if (before[index]) details.open = before[index].open;
  }
  for (const field of old.querySelectorAll("input[id]")) {
    const same = fresh.querySelector(`#${CSS.escape(field.id)}`);
    if (same) [same.value, same.checked] = [field.value, field.checked];
  }
}
