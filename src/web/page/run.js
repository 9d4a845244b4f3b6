// Keeps a run's page up to date. Without it the page shows what was true when it was opened.

const main = document.querySelector("main[data-cursor]");
const path = main.dataset.path;
const notice = document.getElementById("notice");
const versions = new Map();
let cursor = main.dataset.cursor;
let failures = 0;

watch();
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
    keepingPlace(() => show(JSON.parse(data)));
  };
  events.onerror = () => {
    document.body.classList.add("offline");
    // The browser comes back by itself after a lost connection, and not after a refusal.
    if (events.readyState !== EventSource.CLOSED) return;
    failures += 1;
    setTimeout(watch, Math.min(60_000, 2_000 * 2 ** failures));
  };
}

function show({ title, parts, gone, entries }) {
  document.title = title;
  for (const part of parts) place(part);
  for (const id of gone) {
    versions.delete(id);
    document.getElementById(id)?.remove();
  }
  for (const { run, html } of entries) {
    const list = document.getElementById(`entries-${run}`);
    for (const entry of elementsOf(html)) if (!entry.id || !document.getElementById(entry.id)) list?.append(entry);
  }
}

function place({ id, version, into, html }) {
  if (versions.get(id) === version) return;
  const standing = document.getElementById(id);
  const first = !versions.has(id);
  versions.set(id, version);
  const [fresh] = elementsOf(html);
  if (!standing) {
    document.getElementById(into)?.append(fresh);
    return;
  }
  // What the page came with is as it should be; a transcript only grows.
  if (standing.isEqualNode(fresh) || (first && into)) return;
  carryOver(standing, fresh);
  const focused = standing.contains(document.activeElement) ? document.activeElement.id : "";
  standing.replaceWith(fresh);
  if (focused) document.getElementById(focused)?.focus();
}

/** What a person typed and opened stays. */
function carryOver(from, to) {
  for (const field of from.querySelectorAll("textarea, input:not([type=hidden])")) {
    const same = field.id && to.querySelector(`#${CSS.escape(field.id)}`);
    if (same) same.value = field.value;
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

/** Who reads the end goes on reading the end; who reads above stays there. */
function keepingPlace(change) {
  const page = document.documentElement;
  const atEnd = page.scrollHeight > innerHeight + 40 && scrollY + innerHeight > page.scrollHeight - 80;
  change();
  if (atEnd) scrollTo({ top: page.scrollHeight });
}

async function sendForm(event) {
  const form = event.target;
  if (form.action.endsWith("/sign-out")) return;
  event.preventDefault();
  const button = event.submitter;
  if (button) button.disabled = true;
  showNotice("…");
  try {
    const response = await fetch(form.action, {
      method: "POST",
      headers: { accept: "application/json" },
      body: new URLSearchParams(new FormData(form)),
    });
    const { message } = await response.json();
    showNotice(message, !response.ok);
    if (response.ok) form.reset();
  } catch {
    showNotice("The message could not be sent. Check your connection and try again.", true);
  } finally {
    if (button) button.disabled = false;
  }
}

function showNotice(text, isProblem = false) {
  notice.textContent = text;
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
