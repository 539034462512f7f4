// Several rows selected: by their boxes, by the one above them all, or with Shift from one to another.

let last = null; // the box that was clicked last

export function startSelection(root) {
  root.addEventListener("change", (event) => {
    if (event.target.id === "tick-all") for (const box of boxes()) box.checked = event.target.checked;
    if (event.target.matches("#tick-all, [data-rows] input[type=checkbox]")) showSelection();
  });
  root.addEventListener("click", (event) => {
    if (event.target.matches("[data-rows] input[type=checkbox]")) reach(event.target, event.shiftKey);
    if (event.target.closest("[data-clear]")) clear();
  });
  showSelection(); // a browser that comes back remembers what was ticked
}

function boxes() {
  return [...document.querySelectorAll("[data-rows] input[type=checkbox]")];
}

function reach(box, far) {
  const all = boxes();
  const [from, to] = [all.indexOf(last), all.indexOf(box)].sort((a, b) => a - b);
  if (far && from >= 0) for (const each of all.slice(from, to + 1)) each.checked = box.checked;
  last = box;
  showSelection();
}

function clear() {
  for (const box of boxes()) box.checked = false;
  showSelection();
}

export function showSelection() {
  const all = boxes();
  const count = all.filter((box) => box.checked).length;
  for (const box of all) box.closest("tr").classList.toggle("ticked", box.checked);
  const bar = document.getElementById("chosen");
  const text = bar.querySelector("[role=status]");
  const form = bar.closest("form");
  bar.classList.toggle("some", count > 0);
  text.textContent = count ? inWords(text.dataset.one, text.dataset.many, count) : "";
  form.dataset.confirm = inWords(form.dataset.confirmOne, form.dataset.confirmMany, count);
  const head = document.getElementById("tick-all");
  if (!head) return;
  head.checked = count > 0 && count === all.length;
  head.indeterminate = count > 0 && count < all.length;
  head.disabled = !all.length;
}

function inWords(one, many, count) {
  return count === 1 ? one : many.replace("{number}", count);
}
