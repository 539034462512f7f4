// Rows of a table brought up to date by their ids. Only those whose data-v differs are touched: what is selected, has
// the focus or is the keyboard's row stays so, and nothing moves that did not change.
import { showTimes } from "./times.js";

/** `fresh`: the rows as HTML, or a tbody with them. */
export function mergeRows(body, fresh) {
  const next = typeof fresh === "string" ? rowsOf(fresh) : [...fresh.rows];
  const known = new Map([...body.rows].map((row) => [row.id, row]));
  const shown = next.map((row) => bring(known.get(row.id), row));
  for (const row of next) known.delete(row.id);
  removeGone([...known.values()], body);
  let place = body.firstElementChild;
  for (const row of shown) {
    if (row === place) place = place.nextElementSibling;
    else body.insertBefore(row, place);
  }
}

// Newer jobs push old ones off the end of the page: those that are selected stay until they are not.
function removeGone(gone, body) {
  const rows = new Set(gone);
  const last = [...body.rows].findLastIndex((row) => !rows.has(row));
  for (const row of gone) {
    if (!isTicked(row) || row.sectionRowIndex < last) row.remove();
  }
}

function rowsOf(html) {
  const holder = document.createElement("template");
  holder.innerHTML = html;
  return [...holder.content.querySelectorAll("tr")];
}

// The row to show: the one that is there, unless its job looks different now.
function bring(old, row) {
  if (old?.dataset.v === row.dataset.v) return old;
  row.classList.add("fresh");
  if (old) takeOver(old, row);
  showTimes(row);
  return row;
}

function takeOver(old, row) {
  const focused = old.contains(document.activeElement) ? document.activeElement : null;
  const tick = row.querySelector("input[type=checkbox]");
  if (tick) tick.checked = isTicked(old);
  row.classList.toggle("here", old.classList.contains("here"));
  old.replaceWith(row);
  if (focused) (counterpart(focused, row) ?? row.querySelector("a.open"))?.focus({ preventScroll: true });
}

// What stands in the new row where the focus was in the old one.
function counterpart(element, row) {
  const kind = [element.localName, ...element.classList].join(".");
  return row.querySelector(element.name ? `${kind}[name=${element.name}]` : kind);
}

function isTicked(row) {
  return Boolean(row.querySelector("input[type=checkbox]")?.checked);
}
