/** How many pages a list of this length has. A list without items has one page, which is empty. */
export function pageCount(total, perPage) {
  return Math.floor(total / perPage) + 1;
}

/** One page of a list. Pages count from 1. */
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
