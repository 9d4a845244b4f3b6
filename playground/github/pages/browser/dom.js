/**
 * Makes an element. Attributes that are false or undefined are left out; `on…` members are listeners; children are
 * nodes or plain text, which is never read as HTML.
 */
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

/** A time as people say it, with the exact one on hover. */
export function ago(iso) {
  const seconds = Math.round((Date.now() - new Date(iso).getTime()) / 1000);
  const words = new Intl.RelativeTimeFormat("en", { numeric: "auto" });
  const [amount, unit] =
    seconds < 60
      ? [0, "second"]
      : seconds < 3600
        ? [Math.floor(seconds / 60), "minute"]
        : [Math.floor(seconds / 3600), "hour"];
  return element("time", { datetime: iso, title: new Date(iso).toLocaleString() }, words.format(-amount, unit));
}

export function stateBadge({ state, kind }) {
  const words = { open: "Open", closed: "Closed", draft: "Draft", merged: "Merged" };
  return element("span", { class: `state ${state} ${kind}` }, words[state]);
}

export function authorName({ login, bot }) {
  return [element("strong", {}, login), bot && element("span", { class: "tag" }, "bot")];
}
