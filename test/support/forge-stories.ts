import { type ChatRequest, type Reply, turnOf } from "#playground/model-server.ts";
import type { Forge, ForgeOptions } from "./forge-world.ts";

export type Script = ForgeOptions["script"];

/** One model for many stories at once: each issue has its own script, known by the issue's title. */
export function byTitle(scripts: Record<string, Script>): Script {
  return (request) => {
    const beginning = wordsOf(request.messages.find(({ role }) => role === "user"));
    const title = Object.keys(scripts).find((one) => beginning.includes(one));
    const script = title === undefined ? undefined : scripts[title];
    return script ? script(request) : { status: 400, message: `There is no script for: ${beginning.slice(0, 500)}` };
  };
}

/** The replies one after the other; the last one for good. */
export function inTurn(...replies: Reply[]): Script {
  return ({ messages }) => replies[Math.min(turnOf(messages), replies.length - 1)] ?? { text: "Done." };
}

/** A reply that calls one tool. */
export function call(name: string, args: unknown): Reply {
  return { calls: [{ name, args }] };
}

/** The text of a message, whichever form the client gave it. */
export function wordsOf(message: ChatRequest["messages"][number] | undefined): string {
  const content = message?.content;
  return typeof content === "string" ? content : JSON.stringify(content ?? "");
}

/** The bot's comments in a thread at this moment. */
export async function botComments({ github }: Forge, number: number): Promise<string[]> {
  const [repository] = Object.values(await github.snapshot());
  const threads = [...(repository?.issues ?? []), ...(repository?.pulls ?? [])];
  const comments = threads.find((thread) => thread.number === number)?.comments ?? [];
  return comments.filter(({ author }) => author === github.botLogin).map(({ body }) => body);
}
