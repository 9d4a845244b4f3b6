import { element } from "./dom.js";
import { listView, newIssueView } from "./list-view.js";
import { load, onChange } from "./server.js";
import { threadView } from "./thread-view.js";

const content = document.getElementById("content");
const notice = document.getElementById("notice");
const live = document.getElementById("live");
let world;
let view;

async function start() {
  await loadWorld();
  await show();
  onChange(
    () => void Promise.all([loadWorld(), refresh()]),
    (connected) => showNotice(connected ? world.notice : "The playground is not responding. Is it still running?"),
  );
}

async function loadWorld() {
  world = await load("/-/world").catch((error) => {
    if (world) return world;
    throw error;
  });
  showNotice(world.notice);
}

function showNotice(text) {
  notice.hidden = text === "";
  if (notice.textContent !== text) notice.textContent = text;
}

async function show() {
  view = viewFor(location.pathname);
  document.title = `${view.title} · Golem Forge playground`;
  showCrumbs();
  content.replaceChildren(view.node);
  await refresh();
}

async function refresh() {
  const shown = view;
  try {
    await shown.refresh();
  } catch (error) {
    if (shown === view && shown.node.childElementCount === 0) shown.node.append(element("p", {}, error.message));
  }
}

function viewFor(path) {
  const [owner, name, section, part] = path.split("/").filter((word) => word !== "");
  const repository = owner && name ? `${decodeURIComponent(owner)}/${decodeURIComponent(name)}` : world.repositories[0];
  if (!repository)
    return { node: element("p", {}, "There are no repositories yet."), refresh: async () => {}, title: "Empty" };
  if (section === "issues" && part === "new") return newIssueView({ repository, people: world.people, visit });
  if ((section === "issues" || section === "pull") && part) {
    return threadView({ repository, number: Number(part), people: world.people, announce });
  }
  return listView({ repository });
}

function showCrumbs() {
  const [owner, name] = location.pathname.split("/").filter((word) => word !== "");
  const repository = owner && name ? `${owner}/${name}` : world.repositories[0];
  const crumbs = document.getElementById("crumbs");
  crumbs.replaceChildren(repository ? element("a", { href: `/${repository}` }, repository) : "");
}

function announce(message) {
  live.textContent = message;
}

function visit(path) {
  history.pushState(undefined, "", path);
  void show();
  scrollTo(0, 0);
  content.focus({ preventScroll: true });
}

document.addEventListener("click", (event) => {
  const link = event.target instanceof Element ? event.target.closest("a[href]") : null;
  const plain = event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey && !event.altKey;
  if (!link || !plain || link.origin !== location.origin || link.hash !== "" || link.pathname.startsWith("/-/")) return;
  event.preventDefault();
  visit(link.pathname);
});
addEventListener("popstate", () => void show());

start().catch((error) => content.replaceChildren(element("p", {}, error.message)));
