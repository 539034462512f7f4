// Updates a part of the page to match new content from the server, changing only what differs: scroll positions, focus,
// selections, open <details> and unsent input are preserved. Elements match by id, else by kind and order. Elements with
// data-preserve are not changed, even if the new content lacks them.

const USER_ATTRIBUTES = { DETAILS: ["open"], DIALOG: ["open"] }; // attributes that the user controls

export function mergeContent(current, fresh) {
  const left = [...current.childNodes].filter(isRelevant);
  const pairs = [...fresh.childNodes].filter(isRelevant).map((next) => [takeMatch(left, next), next]);
  const kept = new Set(left.filter(isPreserved));
  for (const gone of left) if (!kept.has(gone)) gone.remove();
  let at = current.firstChild;
  for (const [same, next] of pairs) {
    while (at && (kept.has(at) || !isRelevant(at))) at = at.nextSibling;
    if (same && same === at) at = at.nextSibling;
    else current.insertBefore(same ?? next, at);
    if (same) updateNode(same, next);
  }
}

// Whitespace between elements is ignored.
function isRelevant(node) {
  return node.nodeType === Node.ELEMENT_NODE || (node.nodeType === Node.TEXT_NODE && node.nodeValue.trim() !== "");
}

function isPreserved(node) {
  return node.nodeType === Node.ELEMENT_NODE && node.hasAttribute("data-preserve");
}

// Removes the first match for `next` from `left` and returns it.
function takeMatch(left, next) {
  const found = left.findIndex((node) => isMatch(node, next));
  return found < 0 ? null : left.splice(found, 1)[0];
}

function isMatch(node, next) {
  if (node.nodeName !== next.nodeName || (node.id ?? "") !== (next.id ?? "")) return false;
  return Boolean(node.id) || (node.classList?.[0] ?? "") === (next.classList?.[0] ?? "");
}

function updateNode(current, next) {
  if (current.nodeType === Node.TEXT_NODE) {
    if (current.nodeValue !== next.nodeValue) current.nodeValue = next.nodeValue;
  } else if (!isPreserved(current) && !isEdited(current)) {
    const isTime = current.matches("[data-show], [data-since]") && isSameTime(current, next);
    updateAttributes(current, next);
    if (!isTime) mergeContent(current, next);
  }
}

// Scripts format times in the user's locale: an unchanged time is not replaced.
function isSameTime(current, next) {
  return current.dateTime === next.dateTime && current.dataset.since === next.dataset.since;
}

function isEdited(element) {
  if (element.matches("select")) return element === document.activeElement;
  return element.matches("input:not([type=hidden]), textarea") && element.value !== element.defaultValue;
}

function updateAttributes(current, next) {
  const userControlled = USER_ATTRIBUTES[current.nodeName] ?? [];
  for (const { name, value } of next.attributes) {
    if (!userControlled.includes(name) && current.getAttribute(name) !== value) current.setAttribute(name, value);
  }
  for (const { name } of [...current.attributes]) {
    if (!next.hasAttribute(name) && !userControlled.includes(name) && !isScriptAttribute(current, name)) current.removeAttribute(name);
  }
}

// Attributes that scripts added: the exact time, and the keyboard's current row.
function isScriptAttribute(element, name) {
  return (name === "title" && element.nodeName === "TIME") || (name === "class" && element.nodeName === "TR");
}
