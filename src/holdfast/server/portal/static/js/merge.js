// Makes what is on a page like what the server sent, touching only what differs: so scroll, focus, selections, open
// <details> and what is being typed stay. Elements with an id are the same wherever they stand; others are the same as
// the next one of their kind. Those with data-keep are left alone, also when the server does not send them again.

const STAYS = { DETAILS: ["open"], DIALOG: ["open"] }; // attributes that the reader decides on

export function mergeInto(here, fresh) {
  const left = [...here.childNodes].filter(isSomething);
  const pairs = [...fresh.childNodes].filter(isSomething).map((next) => [take(left, next), next]);
  const kept = new Set(left.filter(isKept));
  for (const gone of left) if (!kept.has(gone)) gone.remove();
  let at = here.firstChild;
  for (const [same, next] of pairs) {
    while (at && (kept.has(at) || !isSomething(at))) at = at.nextSibling;
    if (same && same === at) at = at.nextSibling;
    else here.insertBefore(same ?? next, at);
    if (same) update(same, next);
  }
}

// Blanks between elements mean nothing.
function isSomething(node) {
  return node.nodeType === Node.ELEMENT_NODE || (node.nodeType === Node.TEXT_NODE && node.nodeValue.trim() !== "");
}

function isKept(node) {
  return node.nodeType === Node.ELEMENT_NODE && node.hasAttribute("data-keep");
}

// The first of `left` that is there for `next`, taken out of them.
function take(left, next) {
  const found = left.findIndex((node) => isSame(node, next));
  return found < 0 ? null : left.splice(found, 1)[0];
}

function isSame(node, next) {
  if (node.nodeName !== next.nodeName || (node.id ?? "") !== (next.id ?? "")) return false;
  return Boolean(node.id) || (node.classList?.[0] ?? "") === (next.classList?.[0] ?? "");
}

function update(here, next) {
  if (here.nodeType === Node.TEXT_NODE) {
    if (here.nodeValue !== next.nodeValue) here.nodeValue = next.nodeValue;
  } else if (!isKept(here) && !isTyped(here)) {
    const isTime = here.matches("[data-show], [data-since]") && sameTime(here, next);
    updateAttributes(here, next);
    if (!isTime) mergeInto(here, next);
  }
}

// A time is written in the reader's own way by a script: the same one stays as it is.
function sameTime(here, next) {
  return here.dateTime === next.dateTime && here.dataset.since === next.dataset.since;
}

function isTyped(element) {
  if (element.matches("select")) return element === document.activeElement;
  return element.matches("input:not([type=hidden]), textarea") && element.value !== element.defaultValue;
}

function updateAttributes(here, next) {
  const stays = STAYS[here.nodeName] ?? [];
  for (const { name, value } of next.attributes) {
    if (!stays.includes(name) && here.getAttribute(name) !== value) here.setAttribute(name, value);
  }
  for (const { name } of [...here.attributes]) {
    if (!next.hasAttribute(name) && !stays.includes(name) && !isOurs(here, name)) here.removeAttribute(name);
  }
}

// What scripts added since: the exact time, the row that the keys are at.
function isOurs(element, name) {
  return (name === "title" && element.nodeName === "TIME") || (name === "class" && element.nodeName === "TR");
}
