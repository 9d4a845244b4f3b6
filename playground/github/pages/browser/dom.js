/** Creates an element. Children are nodes or plain text, never HTML; functions become listeners of `on…`. */
export function element(name, attributes = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === undefined || value === false) continue;
    if (typeof value === "function") node.addEventListener(key.slice(2), value);
    else node.setAttribute(key, value === true ? "" : String(value));
  }
  node.append(...children.flat().filter((child) => child !== undefined && child !== null && child !== false));
  return node;
}

/** Creates a relative time, with the exact one on hover. */
export function ago(iso) {
  const seconds = Math.round((Date.now() - new Date(iso).getTime()) / 1000);
  const format = new Intl.RelativeTimeFormat("en", { numeric: "auto" });
  const [amount, unit] =
    seconds < 60
      ? [0, "second"]
      : seconds < 3600
        ? [Math.floor(seconds / 60), "minute"]
        : [Math.floor(seconds / 3600), "hour"];
  return element("time", { datetime: iso, title: new Date(iso).toLocaleString() }, format.format(-amount, unit));
}

export function stateBadge({ state, kind }) {
  const titles = { open: "Open", closed: "Closed", draft: "Draft", merged: "Merged" };
  return element("span", { class: `state ${state} ${kind}` }, titles[state]);
}

export function authorName({ login, bot }) {
  return [element("strong", {}, login), bot && element("span", { class: "tag" }, "bot")];
}

export function button(title, onclick, options = {}) {
  return element("button", { type: "button", onclick, ...options }, title);
}

/** Creates a line for a form's error, hidden while there is none. */
export function problemLine() {
  return element("p", { class: "problem", role: "alert", hidden: true });
}

/** Runs an action with the buttons of its form disabled, and shows its error in the form. */
export async function attempt(form, problem, action) {
  const buttons = [...form.querySelectorAll("button")];
  for (const one of buttons) one.disabled = true;
  problem.hidden = true;
  try {
    await action();
  } catch (error) {
    problem.textContent = error.message;
    problem.hidden = false;
  } finally {
    for (const one of buttons) one.disabled = false;
  }
}
