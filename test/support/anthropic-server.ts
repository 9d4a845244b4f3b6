import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { json } from "node:stream/consumers";
import { onTestFinished } from "vitest";

interface Found {
  query: string;
  url: string;
  text: string;
}

/** Starts a server with Anthropic's API. It answers every request with one provider-side search and the text. */
export async function startAnthropic(found: Found) {
  const requests: { tools?: object[] }[] = [];
  const server = createServer(async (request, response) => {
    requests.push((await json(request)) as { tools?: object[] });
    response.writeHead(200, { "content-type": "text/event-stream" });
    response.end(
      eventsOf(found)
        .map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`)
        .join(""),
    );
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, requests };
}

function eventsOf({ query, url, text }: Found) {
  const usage = { input_tokens: 1_000, output_tokens: 1 };
  const message = { id: "msg_1", type: "message", role: "assistant", model: "m", content: [], usage };
  const page = { type: "web_search_result", url, title: "A page", page_age: null, encrypted_content: "sealed" };
  return [
    { type: "message_start", message: { ...message, stop_reason: null, stop_sequence: null } },
    ...block(0, { type: "server_tool_use", id: "srvtoolu_1", name: "web_search", input: {} }, [
      { type: "input_json_delta", partial_json: JSON.stringify({ query }) },
    ]),
    ...block(1, { type: "web_search_tool_result", tool_use_id: "srvtoolu_1", content: [page] }, []),
    ...block(2, { type: "text", text: "" }, [{ type: "text_delta", text }]),
    { type: "message_delta", delta: { stop_reason: "end_turn", stop_sequence: null }, usage: { output_tokens: 10 } },
    { type: "message_stop" },
  ];
}

function block(index: number, content: object, deltas: object[]) {
  return [
    { type: "content_block_start", index, content_block: content },
    ...deltas.map((delta) => ({ type: "content_block_delta", index, delta })),
    { type: "content_block_stop", index },
  ];
}
