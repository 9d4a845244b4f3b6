/** The labels of the page list: `1 [2] 3`. */
export function pageList(total, perPage, current) {
  const count = Math.floor(total / perPage);
  const labels = Array.from({ length: count }, (_, index) => index + 1);
  return labels.map((page) => (page === current ? `[${page}]` : String(page))).join(" ");
}
