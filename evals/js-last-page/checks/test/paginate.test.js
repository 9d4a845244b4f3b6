import assert from "node:assert/strict";
import { test } from "node:test";
import { pageList } from "../src/page-list.js";
import { pageCount, pageOf } from "../src/paginate.js";

test("full pages", () => {
  assert.equal(pageCount(20, 10), 2);
  assert.deepEqual(pageOf([1, 2, 3, 4], 2, 2), [3, 4]);
});

test("a last page that is not full counts", () => {
  assert.equal(pageCount(21, 10), 3);
  assert.equal(pageCount(1, 10), 1);
  assert.equal(pageList(21, 10, 3), "1 2 [3]");
});

test("an empty list has one page", () => {
  assert.equal(pageCount(0, 10), 1);
  assert.equal(pageList(0, 10, 1), "[1]");
});
