/** The number of pages that `total` items need. */
export function pageCount(total, perPage) {
  return Math.floor(total / perPage);
}

/** The items of a page, counted from 1. */
export function pageOf(items, page, perPage) {
  const start = (page - 1) * perPage;
  return items.slice(start, start + perPage);
}
