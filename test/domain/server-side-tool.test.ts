import { expect, test } from "vitest";
import { parseWorker } from "#domain/worker.ts";

const worker = (tools: string) =>
  parseWorker(`---\nname: searcher\nserver_side_tools: ${tools}\n---\n`, "searcher.worker");

test("a worker file may enable the provider's web search, with limits", () => {
  const config = { max_uses: 3, allowed_domains: ["nodejs.org", "docs.example.com/guide"] };

  expect(worker("[{ name: web_search }]").server_side_tools).toEqual([{ name: "web_search" }]);
  expect(worker(`[{ name: web_search, config: ${JSON.stringify(config)} }]`).server_side_tools[0]?.config).toEqual(
    config,
  );
});

test.each([
  ["[{ name: code_execution }]", "The only server-side tool is web_search"],
  ["[{ name: web_search }, { name: web_search }]", "List a server-side tool only once"],
  ["[{ name: web_search, config: { max_uses: 0 } }]", "max_uses"],
  ["[{ name: web_search, config: { allowed_domains: [https://nodejs.org] } }]", "A domain is written like example.com"],
  ["[{ name: web_search, config: { allowed_domains: [a.org], blocked_domains: [b.org] } }]", "not both"],
  ["[{ name: web_search, config: { depth: 3 } }]", "depth"],
])("server_side_tools: %s is rejected with %s", (tools, message) => {
  expect(() => worker(tools)).toThrow(message);
});
