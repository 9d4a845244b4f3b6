import { HttpResponse, http } from "msw";
import { setupServer } from "msw/node";
import { afterAll, afterEach, beforeAll } from "vitest";

export interface ProviderRequest {
  body: Record<string, unknown>;
  headers: Headers;
}

/** Mocks the providers' addresses for the tests of one file. Requests without a mock fail. */
export function providerServer() {
  const server = setupServer();
  beforeAll(() => server.listen({ onUnhandledFrame: "error" }));
  afterEach(() => server.resetHandlers());
  afterAll(() => server.close());

  /** Answers each POST to the address with the next list of events, repeating the last one, and records the requests. */
  function streaming(address: string, ...answers: object[][]): ProviderRequest[] {
    const seen: ProviderRequest[] = [];
    server.use(
      http.post(address, async ({ request }) => {
        seen.push({ body: (await request.json()) as Record<string, unknown>, headers: request.headers });
        const events = answers[seen.length - 1] ?? answers.at(-1) ?? [];
        return new HttpResponse(events.map(line).join(""), { headers: { "content-type": "text/event-stream" } });
      }),
    );
    return seen;
  }

  return { use: server.use.bind(server), streaming };
}

function line(event: object): string {
  const name = "type" in event ? `event: ${event.type}\n` : "";
  return `${name}data: ${JSON.stringify(event)}\n\n`;
}
