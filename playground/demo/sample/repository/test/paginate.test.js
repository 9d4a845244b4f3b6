import assert from "node:assert/strict";
import test from "node:test";
import { pageCount, paginate } from "../src/paginate.js";

const products = (count) => Array.from({ length: count }, (_, index) => `product ${index + 1}`);

test("the last page has the remaining items", () => {
  const { items, pages, hasNext } = paginate(products(25), { page: 3 });

  assert.deepEqual(items, products(25).slice(20));
  assert.equal(pages, 3);
  assert.equal(hasNext, false);
});

test("an empty list has one page", () => {
  assert.equal(pageCount(0, 10), 1);
});

test("a full last page is not followed by an empty one", () => {
  assert.equal(pageCount(20, 10), 2);
  assert.equal(paginate(products(20), { page: 2 }).hasNext, false);
});
