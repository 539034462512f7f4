// The line of a YAML job file that names the job: read and written without touching anything else.

const LINE = /^name:[ \t]*(.*?)[ \t]*$/m;
const PLAIN = /^[A-Za-z_][A-Za-z0-9_.-]*$/;
const WORDS = /^(true|false|yes|no|on|off|null|y|n)$/i; // which YAML reads as something else

/** The name, or null where there is no line that simply gives one. */
export function nameIn(text) {
  const found = LINE.exec(text)?.[1];
  if (found === undefined || /^[|>&*!{[]|[ \t]#/.test(found)) return null;
  if (found.startsWith('"')) return quoted(found);
  if (found.startsWith("'")) return found.endsWith("'") && found.length > 1 ? found.slice(1, -1).replaceAll("''", "'") : null;
  return found;
}

function quoted(found) {
  try {
    return JSON.parse(found);
  } catch {
    return null;
  }
}

/** The same file with another name. */
export function withName(text, name) {
  const written = PLAIN.test(name) && !WORDS.test(name) ? name : JSON.stringify(name);
  return text.replace(LINE, () => `name: ${written}`);
}
