// Selects rows: by their checkboxes, by the checkbox above all, or with Shift for a range.

let last = null; // the checkbox clicked last

export function startSelection(root) {
  root.addEventListener("change", (event) => {
    if (event.target.id === "select-all") for (const checkbox of listCheckboxes()) checkbox.checked = event.target.checked;
    if (event.target.matches("#select-all, [data-rows] input[type=checkbox]")) showSelection();
  });
  root.addEventListener("click", (event) => {
    if (event.target.matches("[data-rows] input[type=checkbox]")) selectRange(event.target, event.shiftKey);
    if (event.target.closest("[data-clear]")) clearSelection();
  });
  showSelection(); // after back navigation, browsers restore the checkboxes
}

function listCheckboxes() {
  return [...document.querySelectorAll("[data-rows] input[type=checkbox]")];
}

function selectRange(checkbox, isRange) {
  const all = listCheckboxes();
  const [from, to] = [all.indexOf(last), all.indexOf(checkbox)].sort((a, b) => a - b);
  if (isRange && from >= 0) for (const each of all.slice(from, to + 1)) each.checked = checkbox.checked;
  last = checkbox;
  showSelection();
}

function clearSelection() {
  for (const checkbox of listCheckboxes()) checkbox.checked = false;
  showSelection();
}

export function showSelection() {
  const all = listCheckboxes();
  const count = all.filter((checkbox) => checkbox.checked).length;
  for (const checkbox of all) checkbox.closest("tr").classList.toggle("selected", checkbox.checked);
  const bar = document.getElementById("selection");
  const text = bar.querySelector("[role=status]");
  const form = bar.closest("form");
  bar.classList.toggle("has-selection", count > 0);
  text.textContent = count ? formatCount(text.dataset.one, text.dataset.many, count) : "";
  form.dataset.confirm = formatCount(form.dataset.confirmOne, form.dataset.confirmMany, count);
  const head = document.getElementById("select-all");
  if (!head) return;
  head.checked = count > 0 && count === all.length;
  head.indeterminate = count > 0 && count < all.length;
  head.disabled = !all.length;
}

function formatCount(one, many, count) {
  return count === 1 ? one : many.replace("{number}", count);
}
