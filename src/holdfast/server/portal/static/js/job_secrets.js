// Finds, masks and fills in secrets in the text of a job file of any format. Changes only their values, so that all other
// characters and line numbers are preserved. Independent of the DOM.

export const MASK = "******";

// Returns [{name, path, value, masked, start, end, block}] for all values below `secrets`; null if the text cannot be parsed.
export function findSecrets(yaml, text) {
  const found = [];
  const document = yaml.parseDocument(text, { schema: "failsafe", uniqueKeys: false, logLevel: "silent" });
  if (document.errors.length) return null;
  const top = yaml.isMap(document.contents) ? document.contents.items : [];
  for (const pair of top) {
    if (pair.key?.value === "secrets") collectSecrets(yaml, pair.value, [], found);
  }
  return found;
}

function collectSecrets(yaml, node, path, found) {
  if (yaml.isMap(node)) {
    for (const pair of node.items) collectSecrets(yaml, pair.value, [...path, String(pair.key?.value ?? "")], found);
  } else if (yaml.isSeq(node)) {
    node.items.forEach((item, index) => collectSecrets(yaml, item, [...path, String(index)], found));
  } else if (yaml.isScalar(node) && node.range && path.length) {
    const value = String(node.value ?? "");
    const block = String(node.type ?? "").startsWith("BLOCK");
    found.push({ name: path.join("."), path, value, masked: value === MASK, start: node.range[0], end: node.range[1], block });
  }
}

// Returns the text with each masked secret in `values` (a Map by name) filled in.
export function fillSecrets(yaml, text, values) {
  const found = findSecrets(yaml, text) ?? [];
  return replaceRanges(text, found.filter((secret) => secret.masked && values.get(secret.name)), (secret) => quoteValue(values.get(secret.name)));
}

// Returns the text with all secrets masked; null if it cannot be parsed, so that it is not stored.
export function maskSecrets(yaml, text) {
  const found = findSecrets(yaml, text);
  return found && replaceRanges(text, found.filter((secret) => !secret.masked && secret.value !== ""), () => quoteValue(MASK));
}

function replaceRanges(text, ranges, format) {
  let result = text;
  for (const range of [...ranges].sort((one, other) => other.start - one.start)) {
    result = result.slice(0, range.start) + format(range) + (range.block ? "\n" : "") + result.slice(range.end);
  }
  return result;
}

// JSON strings are valid YAML. Lone surrogates, which a file cannot contain, are replaced.
function quoteValue(value) {
  return JSON.stringify(String(value).toWellFormed?.() ?? String(value));
}
