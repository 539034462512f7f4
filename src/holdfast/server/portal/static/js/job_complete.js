// What may stand at a place of a job file, offered while somebody types: keys, and names that the group knows.

const KEYS = ["name", "description", "group", "image", "instances", "command", "commands", "env", "instance_type", "resources", "ports", "mounts",
  "completion", "shell_options", "workdir", "roles", "secrets", "export_secrets", "gang", "retry", "time_limit", "grace", "hold", "priority",
  "tags", "datasets", "files", "extras"];
const RESOURCES = ["cpu", "memory", "gpu", "shm"];
const LISTS = { image: "images", instance_type: "types" };

// `choices()` and `ours()` as things stand. -> a source for CodeMirror's autocompletion.
export function completions(choices, ours) {
  return (context) => {
    if (!ours()) return null;
    const line = context.state.doc.lineAt(context.pos);
    const before = line.text.slice(0, context.pos - line.from);
    return value(before, context, choices()) ?? key(before, context, line);
  };
}

function value(before, context, choices) {
  const found = /^\s*(image|instance_type):\s+(\S*)$/.exec(before);
  if (!found) return null;
  const options = choices[LISTS[found[1]]].map((one) => ({ label: one.name, detail: one.tip }));
  return { from: context.pos - found[2].length, options };
}

function key(before, context, line) {
  const found = /^(\s*)([a-z_]*)$/.exec(before);
  if (!found || (!context.explicit && (found[1] || !found[2]))) return null; // unasked at the top alone: deeper may be a script
  const inside = found[1] && line.number > 1 && isUnder(context.state.doc, line.number, "resources");
  const options = (inside ? RESOURCES : KEYS).map((label) => ({ label, apply: `${label}: `, type: "property" }));
  return { from: context.pos - found[2].length, options };
}

function isUnder(text, number, key) {
  const indent = (line) => /^\s*/.exec(line)[0].length;
  const own = indent(text.line(number).text);
  for (let above = number - 1; above > 0 && above > number - 20; above -= 1) {
    const line = text.line(above).text;
    if (line.trim() && indent(line) < own) return line.trim().startsWith(`${key}:`);
  }
  return false;
}
