// xterm.js creates <style> elements and style attributes, which the content security policy forbids without a nonce. On a
// page with a terminal, new elements work around that: <style> gets the page's nonce, and style attributes are set as
// properties, which the policy allows to scripts.

const nonce = document.querySelector("meta[name=style-nonce]")?.content ?? "";

export function allowTerminalStyles() {
  document.createElement = createElement;
}

function createElement(...options) {
  const element = Document.prototype.createElement.apply(document, options);
  if (element.localName === "style") element.nonce = nonce;
  else if (element.localName === "span") element.setAttribute = setAttribute;
  return element;
}

function setAttribute(name, value) {
  if (name === "style") this.style.cssText = value;
  else Element.prototype.setAttribute.call(this, name, value);
}
