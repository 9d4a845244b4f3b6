import fc from "fast-check";
import { expect, test } from "vitest";
import { explainFailure } from "#models/explain-failure.ts";
import { ModelFailureError } from "#models/models.ts";
import { providers } from "#models/providers.ts";

const secret = "a-key-that-must-not-leak";
const provider = providers({
  default: undefined,
  anthropic: { apiKey: undefined, baseUrl: undefined },
  openai: { apiKey: undefined, baseUrl: undefined },
  google: { apiKey: undefined },
  compatible: { apiKey: secret, baseUrl: "https://models.example:8443/v1" },
}).get("compatible");
if (!provider) throw new Error("There is no such provider.");

const explain = (error: unknown) => explainFailure(error, provider, "compatible:llama");

/** An error of fetch, with the system's error as its cause. */
function networkError(code: string): Error {
  return new TypeError("fetch failed", { cause: Object.assign(new Error(`connect ${code}`), { code }) });
}

test.each([
  ["ECONNREFUSED", "models.example:8443 refused the connection. Is it running?", true],
  ["ENOTFOUND", "the host models.example:8443 was not found.", true],
  ["EAI_AGAIN", "the host models.example:8443 was not found.", true],
  ["ECONNRESET", "closed the connection before the end of its answer.", true],
  ["UND_ERR_SOCKET", "closed the connection before the end of its answer.", true],
  ["UND_ERR_HEADERS_TIMEOUT", "at models.example:8443 did not answer in time.", true],
  ["ETIMEDOUT", "at models.example:8443 did not answer in time.", true],
  ["DEPTH_ZERO_SELF_SIGNED_CERT", "uses a certificate that is not trusted.", false],
  ["CERT_HAS_EXPIRED", "uses a certificate that is not trusted.", false],
])("%s is explained: %s", (code, sentence, retryable) => {
  const failure = explain(networkError(code));

  expect(failure.message).toMatch(/^The model server /);
  expect(failure.message).toContain(sentence);
  expect(failure.retryable).toBe(retryable);
});

test("two refused addresses of one host give one sentence", () => {
  const refused = Object.assign(new Error("connect ECONNREFUSED"), { code: "ECONNREFUSED" });

  const failure = explain(new TypeError("fetch failed", { cause: new AggregateError([refused, refused]) }));

  expect(failure.message).toContain("models.example:8443 refused the connection");
});

test("a ModelFailureError is returned unchanged", () => {
  const failure = new ModelFailureError("It is Sunday.", { retryable: true, retryAfterMs: 5 });

  expect(explain(failure)).toBe(failure);
});

test("an unexpected error is not retryable, and its message is passed on", () => {
  expect(explain(new RangeError("Too much of everything"))).toMatchObject({
    message: "The model server could not be called: Too much of everything.",
    retryable: false,
  });
});

test("any thrown value becomes one line without keys and passwords", () => {
  const noise = fc.string({ maxLength: 40 });
  const thrown = fc.oneof(
    fc.anything(),
    fc.record({
      message: fc.tuple(noise, noise).map(([a, b]) => `${a} ${secret} ${b} https://ada:hunter2@proxy.example/x?key=9`),
      statusCode: fc.oneof(fc.integer({ min: 100, max: 599 }), fc.constant(undefined)),
    }),
  );

  fc.assert(
    fc.property(thrown, (error) => {
      const { message, cause } = explain(error);
      expect(message).not.toMatch(new RegExp(`${secret}|hunter2|key=9|\n`));
      expect(message.length).toBeLessThanOrEqual(600);
      expect(cause).toBeUndefined();
    }),
  );
});

test("a key that is too short to be a secret is not redacted, so that the message stays readable", () => {
  const failure = explainFailure(new Error("You exceeded your current quota"), { ...provider, apiKey: "x" }, "a:b");

  expect(failure.message).toContain("You exceeded your current quota");
});
