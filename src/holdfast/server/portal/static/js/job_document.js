// A job file as a document that a form can read and change. Comments, key order and everything the form does not know are
// preserved. Values are texts in their original spelling, so 007 stays 007. Independent of the DOM; `yaml` is the npm package.

const MAX_TEXT_SIZE = 200_000; // characters; longer files can only be edited as text
const MAX_VALUES = 20_000; // including those that anchors repeat
const KEY_ORDER = ["name", "description", "group", "image", "instances", "command", "commands", "env", "instance_type", "resources", "ports",
  "mounts", "completion", "shell_options", "workdir", "roles", "secrets", "export_secrets", "gang", "retry", "time_limit", "grace",
  "hold", "priority", "tags", "datasets", "files", "extras"];
const PRIMEHUB_KEYS = ["displayName", "instanceType", "groupId", "groupName", "activeDeadlineSeconds"];
const ROLE_KEYS = ["instances", "command", "commands", "instance_type", "resources", "ports", "mounts", "completion", "shell_options", "workdir"];

export class JobDocument {
  constructor(yaml, text) {
    this.yaml = yaml;
    this.json = parseJson(text);
    this.isTooLong = text.length > MAX_TEXT_SIZE;
    this.options = detectFormat(text);
    this.isReadable = false;
    this.isScript = /^#![^\r\n]*\r?\n(?:[ \t]*(?:#[^\r\n]*)?\r?\n)*#SBATCH\b/.test(text); // of sbatch
    if (this.isTooLong || this.isScript) return;
    this.document = this.json ? new yaml.Document(this.json) : yaml.parseDocument(text, { schema: "failsafe", logLevel: "silent" });
    if (!this.json && this.document.contents === null) this.document.contents = new yaml.YAMLMap();
    const empty = this.document.contents?.value === "";
    if (empty) this.document.contents = new yaml.YAMLMap();
    this.isReadable = !this.document.errors.length && yaml.isMap(this.document.contents) && this.getValues() !== null;
  }

  // Whether the file is in Holdfast's own format, the only one that the form changes. Same rules as on the server.
  get isHoldfast() {
    if (!this.isReadable) return false;
    const tree = this.getValues();
    if ("protocolVersion" in tree || "jobName" in tree || (tree.taskRoles ?? null) !== null) return false;
    if (tree.kind === "PhJob" || tree.kind === "PhSchedule") return false;
    return "roles" in tree || !PRIMEHUB_KEYS.some((key) => key in tree);
  }

  get text() {
    if (this.json) return JSON.stringify(this.document.toJS(), null, 2) + "\n";
    return this.document.contents.items.length ? this.document.toString(this.options) : "";
  }

  // Returns the whole file: mappings as objects, lists as arrays, scalars as text, empty values as null. Returns null if it
  // has too many values.
  getValues() {
    if (!this.cache) {
      const budget = { left: MAX_VALUES };
      const tree = toPlain(this.yaml, this.document, this.document.contents, budget);
      this.cache = { tree: budget.left < 0 ? null : tree };
    }
    return this.cache.tree;
  }

  get(path) {
    let value = this.getValues();
    for (const step of path) value = isMapping(value) && Object.hasOwn(value, step) ? value[step] : undefined;
    return value ?? undefined;
  }

  // -- changing. `value`: a text, or an array or object of texts; "" and undefined remove the key. `bare`: write without
  // quotes, like numbers and durations. `allowEmpty`: keep a key with an empty text.

  set(path, value, { bare = false, allowEmpty = false } = {}) {
    this.cache = null;
    if (value === undefined || (value === "" && !allowEmpty)) return this.remove(path);
    const parent = this.#ensureMap(path.slice(0, -1));
    const key = path.at(-1);
    const node = this.#createNode(value, bare);
    const pair = this.#findPair(parent, key);
    if (pair) {
      if (this.yaml.isScalar(pair.value) && this.yaml.isScalar(node)) node.comment = pair.value.comment;
      pair.value = node;
    } else {
      this.#insertPair(parent, key, node);
    }
  }

  remove(path) {
    this.cache = null;
    if (this.get(path.slice(0, -1)) === undefined) return;
    const parent = this.#ensureMap(path.slice(0, -1));
    const index = parent.items.findIndex((pair) => getKey(pair) === path.at(-1));
    if (index >= 0) parent.items.splice(index, 1);
    const isRole = path.length === 3 && path[0] === "roles";
    if (!parent.items.length && path.length > 1 && !isRole) this.remove(path.slice(0, -1));
  }

  // Renames a key without moving it.
  rename(path, name) {
    this.cache = null;
    const pair = this.#findPair(this.#ensureMap(path.slice(0, -1)), path.at(-1));
    if (pair) pair.key = this.#createNode(name, false);
  }

  // Converts a job without roles: moves the keys of a role into the role `name`; keys that roles share stay at the top.
  splitIntoRoles(name) {
    const top = this.document.contents;
    const moved = new this.yaml.YAMLMap();
    for (const pair of [...top.items]) {
      if (!ROLE_KEYS.includes(getKey(pair))) continue;
      top.items.splice(top.items.indexOf(pair), 1);
      moved.items.push(pair);
    }
    this.cache = null;
    const roles = new this.yaml.YAMLMap();
    roles.items.push(new this.yaml.Pair(this.#createNode(name, false), moved));
    this.#insertPair(top, "roles", roles);
  }

  // -- internals

  #findPair(map, key) {
    return map.items.find((pair) => getKey(pair) === key);
  }

  // Returns the mapping at a path; creates it if it is missing. Copies a mapping from an anchor before it is changed.
  #ensureMap(path) {
    let map = this.document.contents;
    for (const step of path) {
      let pair = this.#findPair(map, step);
      if (!pair) pair = this.#insertPair(map, step, new this.yaml.YAMLMap());
      if (this.yaml.isAlias(pair.value)) {
        const inherited = pair.value.resolve(this.document);
        pair.value = this.yaml.isMap(inherited) ? inherited.clone() : new this.yaml.YAMLMap();
        pair.value.anchor = undefined;
      }
      if (!this.yaml.isMap(pair.value)) pair.value = new this.yaml.YAMLMap();
      map = pair.value;
    }
    return map;
  }

  // Inserts a key at its place in the usual order.
  #insertPair(map, key, node) {
    const pair = new this.yaml.Pair(this.#createNode(key, false), node);
    const rank = KEY_ORDER.indexOf(key);
    const index = rank < 0 ? -1 : map.items.findIndex((other) => KEY_ORDER.indexOf(getKey(other)) > rank);
    if (index < 0) map.items.push(pair);
    else map.items.splice(index, 0, pair);
    return pair;
  }

  #createNode(value, bare) {
    if (Array.isArray(value)) {
      const list = new this.yaml.YAMLSeq();
      list.flow = value.every((item) => !/[\n,[\]{}]/.test(item) && item.length < 40);
      list.items = value.map((item) => this.#createNode(item, bare));
      return list;
    }
    if (isMapping(value)) {
      const map = new this.yaml.YAMLMap();
      map.flow = true;
      map.items = Object.entries(value).map(([key, item]) => new this.yaml.Pair(this.#createNode(key, false), this.#createNode(item, bare)));
      return map;
    }
    return this.#createScalar(String(value).replace(/\r\n?/g, "\n"), bare);
  }

  #createScalar(text, bare) {
    if (this.json) return new this.yaml.Scalar(bare ? parseBare(text) : text);
    const scalar = new this.yaml.Scalar(text);
    if (bare) scalar.type = "PLAIN";
    else if (/\n/.test(text)) scalar.type = /^\s|[^\S\n]\n|\t/.test(text) ? "QUOTE_DOUBLE" : "BLOCK_LITERAL";
    else if (text === "" || needsQuotes(this.yaml, text)) scalar.type = "QUOTE_DOUBLE";
    return scalar;
  }
}

function toPlain(yaml, document, node, budget) {
  budget.left -= 1;
  if (budget.left < 0 || node === null || node === undefined) return null;
  if (yaml.isAlias(node)) return toPlain(yaml, document, node.resolve(document), budget);
  if (yaml.isMap(node)) return toPlainMap(yaml, document, node, budget);
  if (yaml.isSeq(node)) return node.items.map((item) => toPlain(yaml, document, item, budget));
  const isBare = node.type === undefined || node.type === "PLAIN";
  if (node.value === null || (isBare && ["", "~", "null", "Null", "NULL"].includes(node.value))) return null;
  return String(node.value);
}

function toPlainMap(yaml, document, node, budget) {
  const own = {};
  let inherited = {};
  for (const pair of node.items) {
    const value = toPlain(yaml, document, pair.value, budget);
    if (getKey(pair) !== "<<") defineKey(own, getKey(pair), value);
    else for (const map of [value].flat().filter(isMapping)) inherited = { ...map, ...inherited };
  }
  return { ...inherited, ...own };
}

// Also works for the key __proto__.
function defineKey(object, key, value) {
  Object.defineProperty(object, key, { value, enumerable: true, configurable: true, writable: true });
}

function getKey(pair) {
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

// Returns the formatting of the file, so that changes use the same.
function detectFormat(text) {
  const deep = /:[ \t]*(?:#.*)?\n( +)[^\s#-]/.exec(text);
  const indent = Math.min(8, Math.max(1, deep?.[1].length ?? 2));
  return { lineWidth: 0, flowCollectionPadding: false, blockQuote: "literal", indent, indentSeq: !/^( *)[^\s#-][^\n]*:[ \t]*\n\1- /m.test(text) };
}

// Whether the text without quotes could be parsed as a number, a boolean or null.
function needsQuotes(yaml, text) {
  if (text.length > 100) return false;
  try {
    return typeof yaml.parse(text, { logLevel: "silent" }) !== "string";
  } catch {
    return false; // the YAML library quotes such texts itself
  }
}

function parseBare(text) {
  if (text === "true" || text === "false") return text === "true";
  const number = Number(text);
  return text.trim() !== "" && Number.isFinite(number) ? number : text;
}
