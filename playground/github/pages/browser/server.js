/** Loads data from the playground. Throws an Error whose message can be shown. */
export async function load(path) {
  return parse(await fetch(path, { headers: { accept: "application/json" } }));
}

/** Sends a person's action to the playground. */
export async function send(path, body) {
  const headers = { "content-type": "application/json" };
  return parse(await fetch(path, { method: "POST", headers, body: JSON.stringify(body) }));
}

async function parse(response) {
  const data = await response.json().catch(() => ({}));
  if (!response.ok) throw new Error(data.message ?? `The playground answered with status ${response.status}.`);
  return data;
}

/** Calls back after changes, at most every 50 ms, and when the connection is lost or restored. */
export function onChange(changed, connection) {
  const events = new EventSource("/-/events");
  let scheduled = false;
  events.addEventListener("message", () => {
    if (scheduled) return;
    scheduled = true;
    setTimeout(() => {
      scheduled = false;
      changed();
    }, 50);
  });
  events.addEventListener("open", () => {
    connection(true);
    changed();
  });
  events.addEventListener("error", () => connection(false));
}
