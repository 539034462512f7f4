// Updates the rows of a table by their ids. Replaces only rows with another data-v: the selection, the focus, the keyboard's
// row and all unchanged rows are preserved.
import { showTimes } from "./times.js";

const MAX_HIGHLIGHTED = 5; // rows; if more change at once, none is highlighted
const ROW_HTML = /<tr\b([^>]*)>[^]*?<\/tr>/g;

/** `html`: all current rows. Unchanged rows are not parsed. */
export function mergeRows(body, html) {
  const known = new Map([...body.rows].map((row) => [row.id, row]));
  const next = [...html.matchAll(ROW_HTML)].map(([text, head]) => ({ id: readAttribute(head, "id"), version: readAttribute(head, "data-v"), text }));
  const changed = parseRows(next.filter(({ id, version }) => known.get(id)?.dataset.v !== version));
  const highlight = changed.size <= MAX_HIGHLIGHTED;
  const shown = next.map(({ id }) => (changed.has(id) ? prepareRow(known.get(id), changed.get(id), highlight) : known.get(id)));
  for (const { id } of next) known.delete(id);
  removeGone([...known.values()], body);
  let place = body.firstElementChild;
  for (const row of shown) {
    if (row === place) place = place.nextElementSibling;
    else body.insertBefore(row, place);
  }
}

function readAttribute(head, name) {
  return head.match(new RegExp(` ${name}="([^"]*)"`))?.[1];
}

function parseRows(rows) {
  const holder = document.createElement("template");
  holder.innerHTML = rows.map(({ text }) => text).join("");
  return new Map([...holder.content.children].map((row) => [row.id, row]));
}

// Newer jobs push old ones off the end of the page: selected rows stay there until they are deselected.
function removeGone(gone, body) {
  const rows = new Set(gone);
  const last = [...body.rows].findLastIndex((row) => !rows.has(row));
  for (const row of gone) {
    if (!isSelected(row) || row.sectionRowIndex < last) row.remove();
  }
}

// Prepares a new or changed row.
function prepareRow(old, row, highlight) {
  row.classList.toggle("updated", highlight);
  if (old) copyRowState(old, row);
  showTimes(row);
  return row;
}

function copyRowState(old, row) {
  const focused = old.contains(document.activeElement) ? document.activeElement : null;
  const checkbox = row.querySelector("input[type=checkbox]");
  if (checkbox) checkbox.checked = isSelected(old);
  for (const name of ["current-row", "selected"]) row.classList.toggle(name, old.classList.contains(name));
  old.replaceWith(row);
  if (focused) (findCounterpart(focused, row) ?? row.querySelector("a.open"))?.focus({ preventScroll: true });
}

// Returns the element of the new row that corresponds to the focused one of the old row.
function findCounterpart(element, row) {
  const kind = [element.localName, ...element.classList].join(".");
  return row.querySelector(element.name ? `${kind}[name=${element.name}]` : kind);
}

function isSelected(row) {
  return Boolean(row.querySelector("input[type=checkbox]")?.checked);
}
