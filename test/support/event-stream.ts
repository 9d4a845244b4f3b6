/** One change of a run page, as sent on its event stream. `id` is the cursor after the change. */
export interface Change {
  id: string;
  title: string;
  parts: { id: string; html: string; into?: string }[];
  gone: string[];
  entries: { run: string; html: string }[];
}

export interface Listening {
  status: number;
  /** Resolves to the next change; to undefined when the stream has ended. */
  next(): Promise<Change | undefined>;
  close(): Promise<void>;
}

/** Opens a stream of server-sent events, as a browser would. */
export async function listenTo(url: string, headers: Record<string, string> = {}): Promise<Listening> {
  const response = await fetch(url, { headers });
  const reader = response.body?.getReader();
  let text = "";
  async function next(): Promise<Change | undefined> {
    for (;;) {
      const [message, ...rest] = text.split("\n\n");
      if (rest.length > 0) {
        text = rest.join("\n\n");
        const [, data, id = ""] = /^data: (.*)\nid: (.*)$/.exec(message ?? "") ?? [];
        if (data !== undefined) return { id, ...JSON.parse(data) };
        continue;
      }
      const piece = await reader?.read().catch(() => undefined);
      if (!piece?.value) return undefined;
      text += Buffer.from(piece.value).toString("utf8");
    }
  }
  return { status: response.status, next, close: async () => void (await reader?.cancel()) };
}
