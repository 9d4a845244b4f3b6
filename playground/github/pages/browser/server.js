/** Asks the playground for something. Throws an Error whose message can be shown. */
export async function load(path) {
  return answerOf(await fetch(path, { headers: { accept: "application/json" } }));
}

/** Tells the playground what a person did. */
export async function send(path, body) {
  const headers = { "content-type": "application/json" };
  return answerOf(await fetch(path, { method: "POST", headers, body: JSON.stringify(body) }));
}

async function answerOf(response) {
  const answer = await response.json().catch(() => ({}));
  if (!response.ok) throw new Error(answer.message ?? `The playground answered ${response.status}.`);
  return answer;
}

/** Calls back after changes, at most once per animation frame, and when the connection comes and goes. */
export function onChange(changed, connection) {
  const events = new EventSource("/-/events");
  let waiting = false;
  events.addEventListener("message", () => {
    if (waiting) return;
    waiting = true;
    setTimeout(() => {
      waiting = false;
      changed();
    }, 50);
  });
  events.addEventListener("open", () => {
    connection(true);
    changed();
  });
  events.addEventListener("error", () => connection(false));
}
