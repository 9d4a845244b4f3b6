// Keeps the page of a run up to date.

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
    document.getElementById(id)?.remove();
  }
  for (const { run, html } of entries) {
    const list = document.getElementById(`entries-${run}`);
    for (const entry of elementsOf(html)) if (!entry.id || !document.getElementById(entry.id)) list?.append(entry);
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
    return;
  }
  // The first version of a transcript or a request is already on the page.
  if (current.isEqualNode(fresh) || (first && into)) return;
  keepInput(current, fresh);
  const focused = current.contains(document.activeElement) ? document.activeElement.id : "";
  current.replaceWith(fresh);
  if (focused) document.getElementById(focused)?.focus();
}

/** Keeps what the person typed and opened. */
function keepInput(from, to) {
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

/** Follows the end of the page if the person was reading it. */
function keepScrollPosition(change) {
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
      body: new URLSearchParams(new FormData(form, button)),
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
