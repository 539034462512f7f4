// Makes what is on a page like what the server sent, touching only what differs: so scroll, focus, selections, open
// <details> and what is being typed stay. Elements with an id are the same wherever they stand; those with data-keep are
// left alone, as long as the server still sends them or sends nothing in their place.

const STAYS = { DETAILS: ["open"], DIALOG: ["open"] }; // attributes that the reader decides on

export function mergeInto(here, fresh) {
  const known = new Map();
  for (const child of here.children) if (child.id) known.set(child.id, child);
  let at = here.firstChild;
  for (const next of [...fresh.childNodes]) {
    const same = match(at, next, known);
    if (!same) {
      here.insertBefore(next, at);
    } else {
      at = same === at ? at.nextSibling : (here.insertBefore(same, at), at);
      update(same, next);
    }
  }
  while (at) {
    const gone = at;
    at = at.nextSibling;
    if (!gone.hasAttribute?.("data-keep")) gone.remove();
  }
}

// The node that is there for `next`: that of its id, else the one in its place if it is of the same kind.
function match(at, next, known) {
  if (next.id) return known.get(next.id);
  if (!at || at.nodeType !== next.nodeType || at.nodeName !== next.nodeName) return null;
  return at.id || at.hasAttribute?.("data-keep") ? null : at;
}

function update(here, next) {
  if (here.nodeType !== Node.ELEMENT_NODE) {
    if (here.nodeValue !== next.nodeValue) here.nodeValue = next.nodeValue;
    return;
  }
  if (here.hasAttribute("data-keep") || isTyped(here)) return;
  if (here.nodeName !== next.nodeName) return here.replaceWith(next);
  updateAttributes(here, next);
  if (here.dataset.show || here.dataset.since) here.textContent === next.textContent || setText(here, next);
  else mergeInto(here, next);
}

// Times are written in the reader's own way by a script, which runs after this.
function setText(here, next) {
  if (here.dataset.show === "ago" && here.title) return;
  here.textContent = next.textContent;
}

function isTyped(element) {
  return element === document.activeElement && element.matches("input, textarea, select");
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
