// Reads and writes the `name:` line of a YAML job file without changing the rest.

const NAME_LINE = /^name:[ \t]*(.*?)[ \t]*$/m;
const PLAIN_NAME = /^[A-Za-z_][A-Za-z0-9_.-]*$/;
const RESERVED_WORDS = /^(true|false|yes|no|on|off|null|y|n)$/i; // which YAML parses as another type

/** Return the name, or null if no line sets one in a simple way. */
export function readName(text) {
  const found = NAME_LINE.exec(text)?.[1];
  if (found === undefined || /^[|>&*!{[]|[ \t]#/.test(found)) return null;
  if (found.startsWith('"')) return parseQuoted(found);
  if (found.startsWith("'")) return found.endsWith("'") && found.length > 1 ? found.slice(1, -1).replaceAll("''", "'") : null;
  return found;
}

function parseQuoted(found) {
  try {
    return JSON.parse(found);
  } catch {
    return null;
  }
}

/** Return the file with another name. */
export function writeName(text, name) {
  const written = PLAIN_NAME.test(name) && !RESERVED_WORDS.test(name) ? name : JSON.stringify(name);
  return text.replace(NAME_LINE, () => `name: ${written}`);
}
