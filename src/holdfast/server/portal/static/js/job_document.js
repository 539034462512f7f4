// A job file as a document that a form can read and change: comments, order and everything the form does not know stay.
// Values are texts as they are spelled, so that 007 stays 007. No DOM here; `yaml` is the package of that name.

const MAX_TEXT = 200_000; // characters; longer files are edited as text alone
const MAX_VALUES = 20_000; // with everything that anchors repeat
const ORDER = ["name", "description", "group", "image", "instances", "command", "commands", "env", "instance_type", "resources", "ports",
  "mounts", "completion", "shell_options", "workdir", "roles", "secrets", "export_secrets", "gang", "retry", "time_limit", "grace",
  "hold", "priority", "tags", "datasets", "files", "extras"];
const PRIMEHUB = ["displayName", "instanceType", "groupId", "groupName", "activeDeadlineSeconds"];
const OF_A_ROLE = ["instances", "command", "commands", "instance_type", "resources", "ports", "mounts", "completion", "shell_options", "workdir"];

export class JobDocument {
  constructor(yaml, text) {
    this.yaml = yaml;
    this.json = parseJson(text);
    this.tooLong = text.length > MAX_TEXT;
    this.options = writing(text);
    this.readable = false;
    if (this.tooLong) return;
    this.document = this.json ? new yaml.Document(this.json) : yaml.parseDocument(text, { schema: "failsafe", logLevel: "silent" });
    if (!this.json && this.document.contents === null) this.document.contents = new yaml.YAMLMap();
    const empty = this.document.contents?.value === "";
    if (empty) this.document.contents = new yaml.YAMLMap();
    this.readable = !this.document.errors.length && yaml.isMap(this.document.contents) && this.values() !== null;
  }

  // Whether it is in Holdfast's own format, which alone the form changes. As the server tells dialects apart.
  get ours() {
    if (!this.readable) return false;
    const tree = this.values();
    if ("protocolVersion" in tree || "jobName" in tree || (tree.taskRoles ?? null) !== null) return false;
    if (tree.kind === "PhJob" || tree.kind === "PhSchedule") return false;
    return "roles" in tree || !PRIMEHUB.some((mark) => mark in tree);
  }

  get text() {
    if (this.json) return JSON.stringify(this.document.toJS(), null, 2) + "\n";
    return this.document.contents.items.length ? this.document.toString(this.options) : "";
  }

  // The whole file: mappings as objects, lists as arrays, everything else as text, nothing as null. null: too much of it.
  values() {
    if (!this.known) {
      const budget = { left: MAX_VALUES };
      const tree = plain(this.yaml, this.document, this.document.contents, budget);
      this.known = { tree: budget.left < 0 ? null : tree };
    }
    return this.known.tree;
  }

  at(path) {
    let value = this.values();
    for (const step of path) value = isMapping(value) && Object.hasOwn(value, step) ? value[step] : undefined;
    return value ?? undefined;
  }

  // -- changing. `value`: a text, an array or object of texts; "" and undefined take the key out. `word`: written bare,
  // as numbers and durations are. `blank`: an empty text is a value, too.

  set(path, value, { word = false, blank = false } = {}) {
    this.known = null;
    if (value === undefined || (value === "" && !blank)) return this.remove(path);
    const parent = this.#own(path.slice(0, -1));
    const key = path.at(-1);
    const node = this.#node(value, word);
    const pair = this.#pair(parent, key);
    if (pair) {
      if (this.yaml.isScalar(pair.value) && this.yaml.isScalar(node)) node.comment = pair.value.comment;
      pair.value = node;
    } else {
      this.#insert(parent, key, node);
    }
  }

  remove(path) {
    this.known = null;
    if (this.at(path.slice(0, -1)) === undefined) return;
    const parent = this.#own(path.slice(0, -1));
    const index = parent.items.findIndex((pair) => keyOf(pair) === path.at(-1));
    if (index >= 0) parent.items.splice(index, 1);
    const isRole = path.length === 3 && path[0] === "roles";
    if (!parent.items.length && path.length > 1 && !isRole) this.remove(path.slice(0, -1));
  }

  // Another name for a key, in its place.
  rename(path, name) {
    this.known = null;
    const pair = this.#pair(this.#own(path.slice(0, -1)), path.at(-1));
    if (pair) pair.key = this.#node(name, false);
  }

  // Several kinds of tasks in place of one: what is of a task goes to its role, what all may share stays.
  split(name) {
    const top = this.document.contents;
    const moved = new this.yaml.YAMLMap();
    for (const pair of [...top.items]) {
      if (!OF_A_ROLE.includes(keyOf(pair))) continue;
      top.items.splice(top.items.indexOf(pair), 1);
      moved.items.push(pair);
    }
    this.known = null;
    const roles = new this.yaml.YAMLMap();
    roles.items.push(new this.yaml.Pair(this.#node(name, false), moved));
    this.#insert(top, "roles", roles);
  }

  // -- inside

  #pair(map, key) {
    return map.items.find((pair) => keyOf(pair) === key);
  }

  // The mapping at a path, made where there is none. What an anchor lends becomes the place's own before it changes.
  #own(path) {
    let map = this.document.contents;
    for (const step of path) {
      let pair = this.#pair(map, step);
      if (!pair) pair = this.#insert(map, step, new this.yaml.YAMLMap());
      if (this.yaml.isAlias(pair.value)) {
        const lent = pair.value.resolve(this.document);
        pair.value = this.yaml.isMap(lent) ? lent.clone() : new this.yaml.YAMLMap();
        pair.value.anchor = undefined;
      }
      if (!this.yaml.isMap(pair.value)) pair.value = new this.yaml.YAMLMap();
      map = pair.value;
    }
    return map;
  }

  // Where a reader would look for it.
  #insert(map, key, node) {
    const pair = new this.yaml.Pair(this.#node(key, false), node);
    const rank = ORDER.indexOf(key);
    const index = rank < 0 ? -1 : map.items.findIndex((other) => ORDER.indexOf(keyOf(other)) > rank);
    if (index < 0) map.items.push(pair);
    else map.items.splice(index, 0, pair);
    return pair;
  }

  #node(value, word) {
    if (Array.isArray(value)) {
      const list = new this.yaml.YAMLSeq();
      list.flow = value.every((item) => !/[\n,[\]{}]/.test(item) && item.length < 40);
      list.items = value.map((item) => this.#node(item, word));
      return list;
    }
    if (isMapping(value)) {
      const map = new this.yaml.YAMLMap();
      map.flow = true;
      map.items = Object.entries(value).map(([key, item]) => new this.yaml.Pair(this.#node(key, false), this.#node(item, word)));
      return map;
    }
    return this.#scalar(String(value).replace(/\r\n?/g, "\n"), word);
  }

  #scalar(text, word) {
    if (this.json) return new this.yaml.Scalar(word ? bare(text) : text);
    const scalar = new this.yaml.Scalar(text);
    if (word) scalar.type = "PLAIN";
    else if (/\n/.test(text)) scalar.type = /^\s|[^\S\n]\n|\t/.test(text) ? "QUOTE_DOUBLE" : "BLOCK_LITERAL";
    else if (text === "" || looksLikeMore(this.yaml, text)) scalar.type = "QUOTE_DOUBLE";
    return scalar;
  }
}

function plain(yaml, document, node, budget) {
  budget.left -= 1;
  if (budget.left < 0 || node === null || node === undefined) return null;
  if (yaml.isAlias(node)) return plain(yaml, document, node.resolve(document), budget);
  if (yaml.isMap(node)) return plainMap(yaml, document, node, budget);
  if (yaml.isSeq(node)) return node.items.map((item) => plain(yaml, document, item, budget));
  const isBare = node.type === undefined || node.type === "PLAIN";
  if (node.value === null || (isBare && ["", "~", "null", "Null", "NULL"].includes(node.value))) return null;
  return String(node.value);
}

function plainMap(yaml, document, node, budget) {
  const own = {};
  let lent = {};
  for (const pair of node.items) {
    const value = plain(yaml, document, pair.value, budget);
    if (keyOf(pair) !== "<<") define(own, keyOf(pair), value);
    else for (const map of [value].flat().filter(isMapping)) lent = { ...map, ...lent };
  }
  return { ...lent, ...own };
}

// Also for the name __proto__, which is as good as any other.
function define(object, key, value) {
  Object.defineProperty(object, key, { value, enumerable: true, configurable: true, writable: true });
}

function keyOf(pair) {
  return String(pair.key?.value ?? pair.key ?? "");
}

export function isMapping(value) {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function parseJson(text) {
  if (!text.trimStart().startsWith("{")) return null;
  try {
    const found = JSON.parse(text);
    return isMapping(found) ? found : null;
  } catch {
    return null;
  }
}

// How the file is written, so that what we write looks the same.
function writing(text) {
  const deep = /:[ \t]*(?:#.*)?\n( +)[^\s#-]/.exec(text);
  const indent = Math.min(8, Math.max(1, deep?.[1].length ?? 2));
  return { lineWidth: 0, flowCollectionPadding: false, blockQuote: "literal", indent, indentSeq: !/^( *)[^\s#-][^\n]*:[ \t]*\n\1- /m.test(text) };
}

// A text that, written bare, would be read as a number, a truth or nothing by some reader.
function looksLikeMore(yaml, text) {
  if (text.length > 100) return false;
  try {
    return typeof yaml.parse(text, { logLevel: "silent" }) !== "string";
  } catch {
    return false; // such texts are quoted by themselves
  }
}

function bare(text) {
  if (text === "true" || text === "false") return text === "true";
  const number = Number(text);
  return text.trim() !== "" && Number.isFinite(number) ? number : text;
}
