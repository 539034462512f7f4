// Secrets in the text of a job file, of whichever dialect: where they stand, hidden, and filled in again.
// Changes are made in place, so that every other character and every line stays where it was. No DOM here.

export const MASK = "******";

// -> [{name, path, value, masked, start, end, block}] of every value below `secrets`; null when the text cannot be read.
export function findSecrets(yaml, text) {
  const found = [];
  const document = yaml.parseDocument(text, { schema: "failsafe", uniqueKeys: false, logLevel: "silent" });
  if (document.errors.length) return null;
  const top = yaml.isMap(document.contents) ? document.contents.items : [];
  for (const pair of top) {
    if (pair.key?.value === "secrets") gather(yaml, pair.value, [], found);
  }
  return found;
}

function gather(yaml, node, path, found) {
  if (yaml.isMap(node)) {
    for (const pair of node.items) gather(yaml, pair.value, [...path, String(pair.key?.value ?? "")], found);
  } else if (yaml.isSeq(node)) {
    node.items.forEach((item, index) => gather(yaml, item, [...path, String(index)], found));
  } else if (yaml.isScalar(node) && node.range && path.length) {
    const value = String(node.value ?? "");
    const block = String(node.type ?? "").startsWith("BLOCK");
    found.push({ name: path.join("."), path, value, masked: value === MASK, start: node.range[0], end: node.range[1], block });
  }
}

// The text with each masked secret that `values` (a Map by name) knows written out.
export function fillSecrets(yaml, text, values) {
  const found = findSecrets(yaml, text) ?? [];
  return replace(text, found.filter((secret) => secret.masked && values.get(secret.name)), (secret) => quote(values.get(secret.name)));
}

// The text with every secret hidden; null when it cannot be read, so that nobody keeps it by mistake.
export function maskSecrets(yaml, text) {
  const found = findSecrets(yaml, text);
  return found && replace(text, found.filter((secret) => !secret.masked && secret.value !== ""), () => quote(MASK));
}

function replace(text, places, written) {
  let result = text;
  for (const place of [...places].sort((one, other) => other.start - one.start)) {
    result = result.slice(0, place.start) + written(place) + (place.block ? "\n" : "") + result.slice(place.end);
  }
  return result;
}

// A text of JSON is one of YAML, too. Half of a pair, which no file can hold, is left out.
function quote(value) {
  return JSON.stringify(String(value).toWellFormed?.() ?? String(value));
}
