// Filters the tree and the diffs of changed files.

document.body.classList.add("can-filter");
document.addEventListener("input", ({ target }) => {
  if (target.matches(".changes .filter")) applyFilter(target);
});

/** Shows the files whose path contains every word. */
function applyFilter(field) {
  const changes = field.closest(".changes");
  const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
  const files = [...changes.querySelectorAll(".reviewed")];
  for (const file of files) {
    const path = file.querySelector("summary code").textContent.toLowerCase();
    file.hidden = !words.every((word) => path.includes(word));
    changes.querySelector(`.tree a[href="#${CSS.escape(file.id)}"]`).closest("li").hidden = file.hidden;
  }
  for (const folder of changes.querySelectorAll(".tree details")) {
    folder.parentElement.hidden = !folder.querySelector("li:not([hidden]) > a");
  }
  changes.querySelector(".no-match").hidden = files.some((file) => !file.hidden);
}
