import assert from "node:assert/strict";
import { test } from "node:test";
import { slug } from "../src/slug.js";

test("several spaces", () => {
  assert.equal(slug("Hello  World"), "hello-world");
  assert.equal(slug("  a   b c "), "a-b-c");
});
