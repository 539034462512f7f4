// Rows of a table brought up to date by their ids. Only those whose data-v differs are touched: what is selected, has
// the focus or is the keyboard's row stays so, and nothing moves that did not change.
import { showTimes } from "./times.js";

const SHOWN_AS_NEW = 5; // rows; when more change at once, a sign on each would only be unrest
const ROW = /<tr\b([^>]*)>[^]*?<\/tr>/g;

/** `html`: all rows as they are now. Those that did not change are not even parsed. */
export function mergeRows(body, html) {
  const known = new Map([...body.rows].map((row) => [row.id, row]));
  const next = [...html.matchAll(ROW)].map(([text, head]) => ({ id: attribute(head, "id"), version: attribute(head, "data-v"), text }));
  const changed = parse(next.filter(({ id, version }) => known.get(id)?.dataset.v !== version));
  const fresh = changed.size <= SHOWN_AS_NEW;
  const shown = next.map(({ id }) => (changed.has(id) ? bring(known.get(id), changed.get(id), fresh) : known.get(id)));
  for (const { id } of next) known.delete(id);
  removeGone([...known.values()], body);
  let place = body.firstElementChild;
  for (const row of shown) {
    if (row === place) place = place.nextElementSibling;
    else body.insertBefore(row, place);
  }
}

function attribute(head, name) {
  return head.match(new RegExp(` ${name}="([^"]*)"`))?.[1];
}

function parse(rows) {
  const holder = document.createElement("template");
  holder.innerHTML = rows.map(({ text }) => text).join("");
  return new Map([...holder.content.children].map((row) => [row.id, row]));
}

// Newer jobs push old ones off the end of the page: those that are selected stay until they are not.
function removeGone(gone, body) {
  const rows = new Set(gone);
  const last = [...body.rows].findLastIndex((row) => !rows.has(row));
  for (const row of gone) {
    if (!isTicked(row) || row.sectionRowIndex < last) row.remove();
  }
}

// A row that is new, or looks different now.
function bring(old, row, fresh) {
  row.classList.toggle("fresh", fresh);
  if (old) takeOver(old, row);
  showTimes(row);
  return row;
}

function takeOver(old, row) {
  const focused = old.contains(document.activeElement) ? document.activeElement : null;
  const tick = row.querySelector("input[type=checkbox]");
  if (tick) tick.checked = isTicked(old);
  for (const name of ["here", "ticked"]) row.classList.toggle(name, old.classList.contains(name));
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
