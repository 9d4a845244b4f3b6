// Keeps a run page up to date.

const main = document.querySelector("main[data-cursor]");
const path = main.dataset.path;
const notice = document.getElementById("notice");
/** Read out by screen readers. */
const announcement = document.getElementById("announcement");
const versions = new Map();
let cursor = main.dataset.cursor;
let failures = 0;

const latest = document.createElement("button");
latest.id = "latest";
latest.textContent = "↓ Jump to latest";
latest.hidden = true;
main.append(latest);

watch();
setInterval(updateTimes, 15_000);
addEventListener("scroll", hideLatest, { passive: true });
latest.addEventListener("click", () => scrollTo({ top: document.documentElement.scrollHeight }));
document.addEventListener("submit", sendForm);
document.addEventListener("click", showEarlier);

function watch() {
  const events = new EventSource(`${path}/events?after=${encodeURIComponent(cursor)}`);
  events.onopen = () => {
    failures = 0;
    document.body.classList.remove("offline");
  };
  events.onmessage = ({ data, lastEventId }) => {
    cursor = lastEventId;
    keepScrollPosition(() => applyUpdate(JSON.parse(data)));
  };
  events.onerror = () => {
    document.body.classList.add("offline");
    // Browsers reconnect after a lost connection, but not after an error response.
    if (events.readyState !== EventSource.CLOSED) return;
    failures += 1;
    setTimeout(watch, Math.min(60_000, 2_000 * 2 ** failures));
  };
}

function applyUpdate({ title, parts, gone, entries }) {
  document.title = title;
  for (const part of parts) replacePart(part);
  for (const id of gone) {
    versions.delete(id);
    const part = document.getElementById(id);
    if (part) keepFocus(part);
  }
  for (const { run, html } of entries) {
    const list = document.getElementById(`entries-${run}`);
    for (const entry of elementsOf(html)) if (!entry.id || !document.getElementById(entry.id)) list?.append(entry);
    if (list) groupReads(list);
  }
  updateTimes();
}

/** Groups the last entries of read-only calls, as the server does for a whole page. */
function groupReads(list) {
  const reads = [];
  let last = list.lastElementChild;
  while (last?.matches(".entry.read")) {
    reads.unshift(last);
    last = last.previousElementSibling;
  }
  let group = last?.matches(".reads") ? last : undefined;
  if (reads.length === 0 || (!group && reads.length < 3)) return;
  if (!group) {
    [group] = elementsOf(
      '<li class="reads"><details><summary class="count"></summary><ol class="transcript"></ol></details></li>',
    );
    reads[0].before(group);
  }
  group.querySelector("ol").append(...reads);
  group.querySelector("summary").textContent = `📄 ${group.querySelectorAll(".read").length} read-only calls`;
}

const units = [
  [86_400, "d"],
  [3_600, "h"],
  [60, "min"],
  [0, "s"],
];

function updateTimes() {
  for (const time of document.querySelectorAll("time[title]")) {
    const seconds = Math.max(0, (Date.now() - Date.parse(time.dateTime)) / 1_000);
    const [size, unit] = units.find(([least]) => seconds >= least);
    time.textContent = seconds < 10 ? "just now" : `${Math.floor(seconds / (size || 1))} ${unit} ago`;
  }
}

function replacePart({ id, version, into, html }) {
  if (versions.get(id) === version) return;
  const current = document.getElementById(id);
  const first = !versions.has(id);
  versions.set(id, version);
  const [fresh] = elementsOf(html);
  if (!current) {
    document.getElementById(into)?.append(fresh);
    if (into === "approvals") announcement.textContent = fresh.querySelector("h2")?.textContent ?? "";
    return;
  }
  // The first version of a transcript or a request is already on the page.
  if (current.isEqualNode(fresh) || (first && into)) return;
  keepInput(current, fresh);
  keepFocus(current, fresh);
  for (const filter of fresh.querySelectorAll(".filter")) filter.dispatchEvent(new Event("input", { bubbles: true }));
}

const focusable = "a[href], button, input, textarea, select, summary";

/**
 * Replaces a part, or removes it if there is no fresh one. The element at the same place gets the focus of the one before; if
 * there is none, the content gets it, so that a keyboard does not start again at the top of the page.
 */
function keepFocus(part, fresh) {
  const place = [...part.querySelectorAll(focusable)].indexOf(document.activeElement);
  part.replaceWith(...(fresh ? [fresh] : []));
  if (place === -1) return;
  (fresh?.querySelectorAll(focusable)[place] ?? main).focus({ preventScroll: true });
}

/** Preserves typed text, ticked boxes and opened details. */
function keepInput(from, to) {
  for (const field of from.querySelectorAll("textarea, input:not([type=hidden])")) {
    const same = field.id && to.querySelector(`#${CSS.escape(field.id)}`);
    if (same) [same.value, same.checked] = [field.value, field.checked];
  }
  const opened = [...from.querySelectorAll("details")];
  for (const [index, details] of [...to.querySelectorAll("details")].entries()) {
    if (opened[index]) details.open = opened[index].open;
  }
}

function elementsOf(html) {
  const template = document.createElement("template");
  template.innerHTML = html;
  return [...template.content.children];
}

/** Scrolls to the end of the page after a change if the person was reading there. */
function keepScrollPosition(change) {
  const page = document.documentElement;
  const atEnd = page.scrollHeight > innerHeight + 40 && isAtEnd();
  const height = page.scrollHeight;
  change();
  if (atEnd) scrollTo({ top: page.scrollHeight });
  else if (page.scrollHeight > height + 20) latest.hidden = isAtEnd();
}

function isAtEnd() {
  return scrollY + innerHeight > document.documentElement.scrollHeight - 80;
}

function hideLatest() {
  if (isAtEnd()) latest.hidden = true;
}

async function sendForm(event) {
  const form = event.target;
  if (form.action.endsWith("/sign-out")) return;
  event.preventDefault();
  const button = event.submitter;
  const body = new URLSearchParams(new FormData(form, button));
  // A disabled button would lose the focus.
  if (form.ariaBusy === "true") return;
  form.ariaBusy = "true";
  showNotice("…");
  try {
    const response = await fetch(form.action, {
      method: "POST",
      headers: { accept: "application/json" },
      body,
    });
    const { message, link } = await response.json();
    showNotice(message, { isProblem: !response.ok, link });
    if (response.ok) form.reset();
  } catch {
    showNotice("The message could not be sent. Check your connection and try again.", { isProblem: true });
  } finally {
    form.ariaBusy = null;
  }
}

function showNotice(text, { isProblem = false, link } = {}) {
  notice.textContent = text;
  if (link && link.href !== path) {
    const anchor = document.createElement("a");
    anchor.href = link.href;
    anchor.textContent = link.text;
    notice.append(" ", anchor);
  }
  notice.classList.toggle("bad", isProblem);
}

async function showEarlier(event) {
  const link = event.target.closest("li.earlier a");
  if (!link) return;
  event.preventDefault();
  try {
    const answer = await fetch(link.href, { headers: { accept: "application/json" } });
    if (!answer.ok) throw new Error(String(answer.status));
    const { html } = await answer.json();
    const row = link.closest("li");
    const below = row.nextElementSibling;
    const top = below?.getBoundingClientRect().top ?? 0;
    row.replaceWith(...elementsOf(html));
    scrollBy(0, (below?.getBoundingClientRect().top ?? 0) - top);
  } catch {
    location.assign(link.href);
  }
}
