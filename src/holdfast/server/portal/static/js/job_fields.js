// What the fields of the form mean in a job file: read from a JobDocument, and written into it. No DOM here.
import { isMapping } from "./job_document.js";

const text = (value) => (typeof value === "string" ? value : "");
const SIZE = ["cpu", "memory", "gpu"];

// -- reading

export function readJob(document) {
  const tree = document.values();
  return {
    name: text(tree.name),
    description: text(tree.description),
    group: text(tree.group),
    tags: list(tree.tags).join(", "),
    time_limit: text(tree.time_limit),
    retry: isMapping(tree.retry) ? text(tree.retry.max) : text(tree.retry),
    priority: text(tree.priority),
    files: tree.files === "true",
    datasets: list(tree.datasets),
    env: pairs(tree.env),
    ...readHold(tree.hold),
    roles: readRoles(document),
    named: isMapping(tree.roles),
  };
}

function readHold(hold) {
  const map = isMapping(hold) ? hold : {};
  const on = isMapping(hold) || (text(hold) !== "" && hold !== "false");
  const length = isMapping(hold) ? text(map.for) : hold === "true" || hold === "false" ? "" : text(hold);
  return { hold: on, hold_for: length, hold_keep: text(map.keep) || "all" };
}

// A file without roles has one, `main`, whose keys are at the top.
function readRoles(document) {
  const tree = document.values();
  if (!isMapping(tree.roles)) return [readRole("main", [], tree, {})];
  return Object.entries(tree.roles).map(([name, own]) => readRole(name, ["roles", name], isMapping(own) ? own : {}, tree));
}

function readRole(name, path, own, top) {
  const pick = (key) => own[key] ?? top[key];
  const type = text(pick("instance_type"));
  const shared = text(own.instance_type) ? {} : top.resources; // a size of its own takes nothing from the top
  const size = { ...(isMapping(shared) ? shared : {}), ...(isMapping(own.resources) ? own.resources : {}) };
  const commands = own.command ?? own.commands ?? top.command ?? top.commands;
  const completion = isMapping(pick("completion")) ? pick("completion") : {};
  return {
    name, path, instance_type: type,
    cpu: text(size.cpu), memory: text(size.memory), gpu: text(size.gpu),
    image: text(pick("image")), instances: text(pick("instances")),
    command: Array.isArray(commands) ? list(commands).join("\n") : text(commands).replace(/\n$/, ""),
    ports: portsText(pick("ports")), workdir: text(pick("workdir")),
    min_failed: text(completion.min_failed), min_succeeded: text(completion.min_succeeded),
    env: path.length ? pairs(own.env) : [],
  };
}

function list(value) {
  return Array.isArray(value) ? value.filter((item) => typeof item === "string") : [];
}

function pairs(value) {
  return isMapping(value) ? Object.entries(value).map(([name, held]) => [name, text(held)]) : [];
}

function portsText(ports) {
  if (isMapping(ports)) return Object.entries(ports).map(([label, count]) => (Number(count ?? 1) === 1 ? label : `${label}:${count}`)).join(", ");
  return list(ports).join(", ");
}

// -- writing

const WORDS = new Set(["time_limit", "priority", "instances", "workdir"]);

export function writeJob(document, field, value) {
  if (field === "tags") document.set(["tags"], split(value));
  else if (field === "datasets") document.set(["datasets"], value.length ? value : undefined);
  else if (field === "files") document.set(["files"], value ? "true" : undefined, { word: true });
  else if (field === "retry") document.set(isMapping(document.at(["retry"])) ? ["retry", "max"] : ["retry"], value, { word: true });
  else if (field.startsWith("hold")) writeHold(document, field, value);
  else document.set([field], value, { word: WORDS.has(field) });
}

function writeHold(document, field, value) {
  const hold = { ...readHold(document.at(["hold"])), [field]: value };
  const length = hold.hold_for.trim();
  if (!hold.hold) document.remove(["hold"]);
  else if (hold.hold_keep !== "all") document.set(["hold"], { ...(length && { for: length }), keep: hold.hold_keep }, { word: true });
  else document.set(["hold"], length || "true", { word: true });
}

export function writeRole(document, path, field, value) {
  if (field === "command") writeCommand(document, path, value);
  else if (field === "ports") document.set([...path, "ports"], parsePorts(value), { word: true });
  else if (field === "instance_type") writeType(document, path, value);
  else if (SIZE.includes(field)) document.set([...path, "resources", field], value, { word: true });
  else if (field.startsWith("min_")) document.set([...path, "completion", field], value, { word: true });
  else if (field === "image") writeImage(document, path, value);
  else document.set([...path, field], value, { word: WORDS.has(field) });
}

// The same script either way: a list stays a list.
function writeCommand(document, path, value) {
  const isList = Array.isArray(document.at([...path, "commands"]));
  if (isList && value) document.set([...path, "commands"], value.split("\n"));
  else document.set([...path, isList ? "commands" : "command"], value.includes("\n") ? `${value}\n` : value);
}

// A named size brings its own CPU, memory and GPUs.
function writeType(document, path, value) {
  document.set([...path, "instance_type"], value);
  if (value) for (const key of SIZE) document.remove([...path, "resources", key]);
}

// The machine's own system is what a job gets that names nothing.
function writeImage(document, path, value) {
  const isUsual = value === "host" && (!path.length || document.at(["image"]) === undefined);
  document.set([...path, "image"], isUsual ? undefined : value);
}

// "http, rpc:2" -> labels, or labels with counts where one is not 1.
export function parsePorts(value) {
  const found = split(value) ?? [];
  if (!found.length) return undefined;
  if (!found.some((item) => item.includes(":"))) return found;
  return Object.fromEntries(found.map((item) => item.split(":").map((part) => part.trim())).map(([label, count]) => [label, count || "1"]));
}

function split(value) {
  const found = value.split(/[,，、]/).map((item) => item.trim()).filter(Boolean);
  return found.length ? found : undefined;
}

export function writeVariable(document, path, before, name, value) {
  if (before && name && before !== name) renameTo(document, [...path, "env"], before, name);
  if (before && !name) document.remove([...path, "env", before]);
  else if (name && document.at([...path, "env", name]) !== value) document.set([...path, "env", name], value, { blank: true });
}

// A name that is taken is not taken twice.
export function renameTo(document, path, before, name) {
  if (document.at([...path, name]) === undefined) document.rename([...path, before], name);
  else document.remove([...path, before]);
}

export function addRole(document) {
  if (!isMapping(document.at(["roles"]))) document.split("main");
  const taken = Object.keys(document.at(["roles"]) ?? {});
  let number = taken.length + 1;
  while (taken.includes(`role${number}`)) number += 1;
  document.set(["roles", `role${number}`, "command"], "echo hello");
}

export function removeRole(document, name) {
  document.remove(["roles", name]);
}

export function renameRole(document, before, name) {
  if (name && name !== before && !(name in (document.at(["roles"]) ?? {}))) document.rename(["roles", before], name);
}
