import fc from "fast-check";
import { expect, test } from "vitest";
import { explainFailure } from "#models/explain-failure.ts";
import { ModelFailure } from "#models/models.ts";
import { providers } from "#models/providers.ts";

const secret = "a-key-nobody-may-see";
const provider = providers({
  default: undefined,
  anthropic: { apiKey: undefined, baseUrl: undefined },
  openai: { apiKey: undefined, baseUrl: undefined },
  google: { apiKey: undefined },
  compatible: { apiKey: secret, baseUrl: "https://models.example:8443/v1" },
}).get("compatible");
if (!provider) throw new Error("The provider is gone.");

const explain = (error: unknown) => explainFailure(error, provider, "compatible:llama");

/** As fetch fails: with the system's error inside. */
function networkError(code: string): Error {
  return new TypeError("fetch failed", { cause: Object.assign(new Error(`connect ${code}`), { code }) });
}

test.each([
  ["ECONNREFUSED", "nothing answers at models.example:8443. Is it running?", true],
  ["ENOTFOUND", "no host models.example:8443 is known.", true],
  ["EAI_AGAIN", "no host models.example:8443 is known.", true],
  ["ECONNRESET", "broke off the connection in mid-answer.", true],
  ["UND_ERR_SOCKET", "broke off the connection in mid-answer.", true],
  ["UND_ERR_HEADERS_TIMEOUT", "did not answer in time at models.example:8443.", true],
  ["ETIMEDOUT", "did not answer in time at models.example:8443.", true],
  ["DEPTH_ZERO_SELF_SIGNED_CERT", "shows a certificate that is not trusted here.", false],
  ["CERT_HAS_EXPIRED", "shows a certificate that is not trusted here.", false],
])("%s is told as: %s", (code, words, retryable) => {
  const failure = explain(networkError(code));

  expect(failure.message).toMatch(/^The model server /);
  expect(failure.message).toContain(words);
  expect(failure.retryable).toBe(retryable);
});

test("both addresses of a host refusing is one sentence", () => {
  const refused = Object.assign(new Error("connect ECONNREFUSED"), { code: "ECONNREFUSED" });

  const failure = explain(new TypeError("fetch failed", { cause: new AggregateError([refused, refused]) }));

  expect(failure.message).toContain("nothing answers at models.example:8443");
});

test("a failure that is explained already stays as it is", () => {
  const failure = new ModelFailure("It is Sunday.", { retryable: true, retryAfterMs: 5 });

  expect(explain(failure)).toBe(failure);
});

test("what nobody foresaw is not retried, and said", () => {
  expect(explain(new RangeError("Too much of everything"))).toMatchObject({
    message: "The model server could not be asked: Too much of everything.",
    retryable: false,
  });
});

test("whatever is thrown becomes one line without the key or a password", () => {
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
