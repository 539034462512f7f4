// Completions for job files: keys, and names that the group can use.

const JOB_KEYS = ["name", "description", "group", "image", "instances", "command", "commands", "env", "instance_type", "resources", "ports", "mounts",
  "completion", "shell_options", "workdir", "roles", "secrets", "export_secrets", "gang", "retry", "time_limit", "grace", "hold", "priority",
  "tags", "datasets", "files", "extras"];
const RESOURCE_KEYS = ["cpu", "memory", "gpu", "shm"];
const CHOICE_LISTS = { image: "images", instance_type: "types" };

// `getChoices()` and `isHoldfast()` return the current state. Returns a source for CodeMirror's autocompletion.
export function createCompletionSource(getChoices, isHoldfast) {
  return (context) => {
    if (!isHoldfast()) return null;
    const line = context.state.doc.lineAt(context.pos);
    const before = line.text.slice(0, context.pos - line.from);
    return completeValue(before, context, getChoices()) ?? completeKey(before, context, line);
  };
}

function completeValue(before, context, choices) {
  const found = /^\s*(image|instance_type):\s+(\S*)$/.exec(before);
  if (!found) return null;
  const options = choices[CHOICE_LISTS[found[1]]].map((choice) => ({ label: choice.name, detail: choice.tip }));
  return { from: context.pos - found[2].length, options };
}

function completeKey(before, context, line) {
  const found = /^(\s*)([a-z_]*)$/.exec(before);
  if (!found || (!context.explicit && (found[1] || !found[2]))) return null; // offered automatically only at the top level: deeper lines may belong to a script
  const inside = found[1] && line.number > 1 && isNestedIn(context.state.doc, line.number, "resources");
  const options = (inside ? RESOURCE_KEYS : JOB_KEYS).map((label) => ({ label, apply: `${label}: `, type: "property" }));
  return { from: context.pos - found[2].length, options };
}

function isNestedIn(text, number, key) {
  const indent = (line) => /^\s*/.exec(line)[0].length;
  const own = indent(text.line(number).text);
  for (let above = number - 1; above > 0 && above > number - 20; above -= 1) {
    const line = text.line(above).text;
    if (line.trim() && indent(line) < own) return line.trim().startsWith(`${key}:`);
  }
  return false;
}
