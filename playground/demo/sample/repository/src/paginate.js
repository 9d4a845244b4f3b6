/** The number of pages for this many items. An empty list has one empty page. */
export function pageCount(total, perPage) {
  return Math.floor(total / perPage) + 1;
}

/** Returns one page of a list. Page numbers start at 1. */
export function paginate(list, { page = 1, perPage = 10 } = {}) {
  const pages = pageCount(list.length, perPage);
  const first = (page - 1) * perPage;
  return {
    items: list.slice(first, first + perPage),
    page,
    pages,
    hasPrevious: page > 1,
    hasNext: page < pages,
  };
}
