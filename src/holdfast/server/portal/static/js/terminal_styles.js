// xterm.js writes <style> elements and style="" as it goes, which our policy forbids to all that do not prove to be ours.
// On a page with a terminal, elements are made so that it may: the former carry the page's nonce, the latter are set as
// properties, which the policy allows to scripts.

const nonce = document.querySelector("meta[name=style-nonce]")?.content ?? "";

export function allowTerminalStyles() {
  document.createElement = make;
}

function make(...asked) {
  const element = Document.prototype.createElement.apply(document, asked);
  if (element.localName === "style") element.nonce = nonce;
  else if (element.localName === "span") element.setAttribute = setAttribute;
  return element;
}

function setAttribute(name, value) {
  if (name === "style") this.style.cssText = value;
  else Element.prototype.setAttribute.call(this, name, value);
}
