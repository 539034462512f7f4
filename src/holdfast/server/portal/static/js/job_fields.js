// Maps the fields of the form to keys of a job file: reads them from a JobDocument and writes them. Independent of the DOM.
import { isMapping } from "./job_document.js";

const asText = (value) => (typeof value === "string" ? value : "");
const SIZE_KEYS = ["cpu", "memory", "gpu"];

// -- reading

export function readJob(document) {
  const tree = document.getValues();
  return {
    name: asText(tree.name),
    description: asText(tree.description),
    group: asText(tree.group),
    tags: asList(tree.tags).join(", "),
    time_limit: asText(tree.time_limit),
    retry: isMapping(tree.retry) ? asText(tree.retry.max) : asText(tree.retry),
    priority: asText(tree.priority),
    files: tree.files === "true",
    datasets: asList(tree.datasets),
    env: asPairs(tree.env),
    ...readHold(tree.hold),
    roles: readRoles(document),
    named: isMapping(tree.roles),
  };
}

function readHold(hold) {
  const map = isMapping(hold) ? hold : {};
  const on = isMapping(hold) || (asText(hold) !== "" && hold !== "false");
  const length = isMapping(hold) ? asText(map.for) : hold === "true" || hold === "false" ? "" : asText(hold);
  return { hold: on, hold_for: length, hold_keep: asText(map.keep) || "all" };
}

// A file without roles has one role, `main`, with its keys at the top level.
function readRoles(document) {
  const tree = document.getValues();
  if (!isMapping(tree.roles)) return [readRole("main", [], tree, {})];
  return Object.entries(tree.roles).map(([name, own]) => readRole(name, ["roles", name], isMapping(own) ? own : {}, tree));
}

function readRole(name, path, own, top) {
  const pick = (key) => own[key] ?? top[key];
  const type = asText(pick("instance_type"));
  const shared = asText(own.instance_type) ? {} : top.resources; // an instance type in the role overrides all resources at the top
  const size = { ...(isMapping(shared) ? shared : {}), ...(isMapping(own.resources) ? own.resources : {}) };
  const commands = own.command ?? own.commands ?? top.command ?? top.commands;
  const completion = isMapping(pick("completion")) ? pick("completion") : {};
  return {
    name, path, instance_type: type,
    cpu: asText(size.cpu), memory: asText(size.memory), gpu: asText(size.gpu),
    image: asText(pick("image")), instances: asText(pick("instances")),
    command: Array.isArray(commands) ? asList(commands).join("\n") : asText(commands).replace(/\n$/, ""),
    ports: formatPorts(pick("ports")), workdir: asText(pick("workdir")),
    min_failed: asText(completion.min_failed), min_succeeded: asText(completion.min_succeeded),
    env: path.length ? asPairs(own.env) : [],
  };
}

function asList(value) {
  return Array.isArray(value) ? value.filter((item) => typeof item === "string") : [];
}

function asPairs(value) {
  return isMapping(value) ? Object.entries(value).map(([name, item]) => [name, asText(item)]) : [];
}

function formatPorts(ports) {
  if (isMapping(ports)) return Object.entries(ports).map(([label, count]) => (Number(count ?? 1) === 1 ? label : `${label}:${count}`)).join(", ");
  return asList(ports).join(", ");
}

// -- writing

const BARE_FIELDS = new Set(["time_limit", "priority", "instances", "workdir"]);

export function writeJob(document, field, value) {
  if (field === "tags") document.set(["tags"], splitList(value));
  else if (field === "datasets") document.set(["datasets"], value.length ? value : undefined);
  else if (field === "files") document.set(["files"], value ? "true" : undefined, { bare: true });
  else if (field === "retry") document.set(isMapping(document.get(["retry"])) ? ["retry", "max"] : ["retry"], value, { bare: true });
  else if (field.startsWith("hold")) writeHold(document, field, value);
  else document.set([field], value, { bare: BARE_FIELDS.has(field) });
}

function writeHold(document, field, value) {
  const hold = { ...readHold(document.get(["hold"])), [field]: value };
  const length = hold.hold_for.trim();
  if (!hold.hold) document.remove(["hold"]);
  else if (hold.hold_keep !== "all") document.set(["hold"], { ...(length && { for: length }), keep: hold.hold_keep }, { bare: true });
  else document.set(["hold"], length || "true", { bare: true });
}

export function writeRole(document, path, field, value) {
  if (field === "command") writeCommand(document, path, value);
  else if (field === "ports") document.set([...path, "ports"], parsePorts(value), { bare: true });
  else if (field === "instance_type") writeInstanceType(document, path, value);
  else if (SIZE_KEYS.includes(field)) document.set([...path, "resources", field], value, { bare: true });
  else if (field.startsWith("min_")) document.set([...path, "completion", field], value, { bare: true });
  else if (field === "image") writeImage(document, path, value);
  else document.set([...path, field], value, { bare: BARE_FIELDS.has(field) });
}

// Keeps a list of commands as a list.
function writeCommand(document, path, value) {
  const isList = Array.isArray(document.get([...path, "commands"]));
  if (isList && value) document.set([...path, "commands"], value.split("\n"));
  else document.set([...path, isList ? "commands" : "command"], value.includes("\n") ? `${value}\n` : value);
}

// An instance type defines CPU, memory and GPUs.
function writeInstanceType(document, path, value) {
  document.set([...path, "instance_type"], value);
  if (value) for (const key of SIZE_KEYS) document.remove([...path, "resources", key]);
}

// `host` is the default image.
function writeImage(document, path, value) {
  const isDefault = value === "host" && (!path.length || document.get(["image"]) === undefined);
  document.set([...path, "image"], isDefault ? undefined : value);
}

// "http, rpc:2" -> labels, or labels with counts if one is not 1.
export function parsePorts(value) {
  const found = splitList(value) ?? [];
  if (!found.length) return undefined;
  if (!found.some((item) => item.includes(":"))) return found;
  return Object.fromEntries(found.map((item) => item.split(":").map((part) => part.trim())).map(([label, count]) => [label, count || "1"]));
}

function splitList(value) {
  const found = value.split(/[,，、]/).map((item) => item.trim()).filter(Boolean);
  return found.length ? found : undefined;
}

export function writeVariable(document, path, before, name, value) {
  if (before && name && before !== name) renameKey(document, [...path, "env"], before, name);
  if (before && !name) document.remove([...path, "env", before]);
  else if (name && document.get([...path, "env", name]) !== value) document.set([...path, "env", name], value, { allowEmpty: true });
}

// If the new name exists, removes the old key instead.
export function renameKey(document, path, before, name) {
  if (document.get([...path, name]) === undefined) document.rename([...path, before], name);
  else document.remove([...path, before]);
}

export function addRole(document) {
  if (!isMapping(document.get(["roles"]))) document.splitIntoRoles("main");
  const taken = Object.keys(document.get(["roles"]) ?? {});
  let number = taken.length + 1;
  while (taken.includes(`role${number}`)) number += 1;
  document.set(["roles", `role${number}`, "command"], "echo hello");
}

export function removeRole(document, name) {
  document.remove(["roles", name]);
}

export function renameRole(document, before, name) {
  if (name && name !== before && !(name in (document.get(["roles"]) ?? {}))) document.rename(["roles", before], name);
}
