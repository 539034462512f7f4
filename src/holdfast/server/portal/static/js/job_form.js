// The form beside the file: shows a document and applies the user's changes to it.
import { addRole, readJob, removeRole, renameRole, renameKey, writeJob, writeRole, writeVariable } from "./job_fields.js";
import { findSecrets, MASK } from "./job_secrets.js";
import { readChosenImage, showRoles } from "./job_roles.js";
import { addRow, setRowName, setInputValue, showRows } from "./pair_rows.js";

const getTemplate = (id) => document.getElementById(id);

export class JobForm {
  // `applyEdit(edit)` calls edit(document) and writes the result to the file.
  constructor(root, { choices, applyEdit }) {
    this.root = root;
    this.box = root.querySelector("[data-form]");
    this.choices = choices;
    this.applyEdit = applyEdit;
    this.secrets = new Map(); // name -> typed value; kept in memory only
    root.addEventListener("input", (event) => this.#onInput(event));
    root.addEventListener("change", (event) => this.#onInput(event));
    root.addEventListener("click", (event) => this.#onClick(event));
    root.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && event.target.matches(".new-form input")) event.preventDefault(); // would submit the form
    });
  }

  // -- showing

  // `shown`: the document to show; `editable`: whether it is the file itself; `text`: the file.
  showDocument(yaml, shown, editable, text) {
    this.box.hidden = !shown;
    this.box.disabled = !editable;
    if (!shown) return;
    const job = readJob(shown);
    this.job = job;
    for (const input of this.box.querySelectorAll("[data-bind]")) showValue(input, job[input.dataset.bind]);
    this.box.querySelector("[data-when-held]").hidden = !job.hold;
    showRoles(this.box.querySelector("[data-roles]"), job, this.choices);
    showRows(this.box.querySelector("[data-pairs=env]"), getTemplate("pair-template"), job.env, (row, [, value]) => setInputValue(row.querySelector("[data-pair=value]"), value));
    this.#showSecrets(findSecrets(yaml, text) ?? []);
    this.#showDatasets(job.datasets);
    this.box.querySelector("[data-bind=time_limit]").placeholder = this.choices.time_limit;
  }

  #showSecrets(found) {
    const rows = found.map((secret) => [secret.name, secret]);
    showRows(this.box.querySelector("[data-secrets]"), getTemplate("secret-template"), rows, (row, [name, secret]) => {
      const value = secret.masked ? this.secrets.get(name) ?? "" : secret.value;
      const input = row.querySelector("[data-pair=value]");
      setInputValue(input, value);
      input.placeholder = input.dataset.again;
      row.classList.toggle("unfilled", value === "");
    });
  }

  #showDatasets(chosen) {
    const box = this.box.querySelector("[data-datasets]");
    const known = this.choices.datasets;
    const listed = [...known, ...chosen.filter((name) => !known.some((dataset) => dataset.name === name)).map((name) => ({ name, label: name, tip: getTemplate("gone-text").content.textContent, about: "" }))];
    const key = JSON.stringify(listed);
    if (box.dataset.shown !== key) {
      box.dataset.shown = key;
      box.replaceChildren(...listed.map(createDatasetChoice));
    }
    for (const input of box.querySelectorAll("input")) input.checked = chosen.includes(input.value);
    this.box.querySelector("[data-no-datasets]").hidden = listed.length > 0;
  }

  // Returns the names of masked secrets without a value.
  listUnfilledSecrets(yaml, text) {
    return (findSecrets(yaml, text) ?? []).filter((secret) => secret.masked && !this.secrets.get(secret.name)).map((secret) => secret.name);
  }

  // Shows each problem at its field.
  showProblems(problems) {
    const fields = [...this.root.querySelectorAll(".field[data-path]")];
    const messages = new Map();
    for (const problem of problems) {
      const field = findField(fields, problem.field);
      if (field) messages.set(field, [...(messages.get(field) ?? []), [problem.message, problem.hint].filter(Boolean).join("\n")]);
    }
    for (const field of fields) {
      const message = (messages.get(field) ?? []).join("\n");
      const element = field.querySelector(":scope > .problem");
      element.textContent = message;
      element.hidden = !message;
      field.classList.toggle("invalid", Boolean(message));
      for (const input of field.querySelectorAll("input, textarea, select")) message ? input.setAttribute("aria-invalid", "true") : input.removeAttribute("aria-invalid");
      if (message) field.closest("details")?.setAttribute("open", "");
    }
  }

  // -- changing

  #onInput(event) {
    const input = event.target;
    if (!this.box.contains(input)) return;
    const card = input.closest("[data-role]");
    if (input.dataset.pair) this.#changePair(input, event.type);
    else if (input.closest("[data-datasets]")) this.#changeDatasets();
    else if (input.dataset.bind) this.applyEdit((document) => writeJob(document, input.dataset.bind, input.type === "checkbox" ? input.checked : input.value));
    else if (card) this.#changeRole(card, input, event.type);
  }

  #changeRole(card, input, kind) {
    const path = this.#getRolePath(card);
    if (input.type === "radio") this.applyEdit((document) => writeRole(document, path, "instance_type", input.value));
    else if (input.dataset.image !== undefined) this.#changeImage(card, path);
    else if (input.dataset.roleBind === "name") {
      if (kind === "change") this.applyEdit((document) => renameRole(document, card.dataset.role, input.value.trim()));
    } else this.applyEdit((document) => writeRole(document, path, input.dataset.roleBind, input.value));
  }

  #changeImage(card, path) {
    const image = readChosenImage(card);
    if (image !== null) this.applyEdit((document) => writeRole(document, path, "image", image));
  }

  #changeDatasets() {
    const chosen = [...this.box.querySelectorAll("[data-datasets] input:checked")].map((input) => input.value);
    this.applyEdit((document) => writeJob(document, "datasets", chosen));
  }

  // Applies a name on blur: each letter typed would otherwise create a variable.
  #changePair(input, kind) {
    const row = input.closest(".pair-row");
    const [name, value] = ["name", "value"].map((part) => row.querySelector(`[data-pair=${part}]`).value);
    if (input.dataset.pair === "name" && kind !== "change") return;
    if (!name.trim() && !row.dataset.name) return;
    if (row.classList.contains("secret-row")) this.#changeSecret(row, name.trim(), value);
    else this.#changeVariable(row, name.trim(), value);
  }

  #changeVariable(row, name, value) {
    const before = row.dataset.name ?? "";
    if (name) setRowName(row, name);
    this.applyEdit((document) => writeVariable(document, this.#getRolePath(row.closest("[data-role]")), before, name, value));
  }

  // The file contains the mask; the value stays in memory until the job is submitted.
  #changeSecret(row, name, value) {
    const before = row.dataset.name ?? "";
    if (before && before !== name) this.secrets.delete(before);
    if (name) this.secrets.set(name, value);
    if (name) setRowName(row, name);
    const path = (known) => ["secrets", ...known.split(".")];
    this.applyEdit((document) => {
      if (before && !name) document.remove(path(before));
      else if (before && before !== name && !before.includes(".")) renameKey(document, ["secrets"], before, name);
      if (name && document.get(path(name)) !== MASK) document.set(path(name), MASK);
    });
  }

  #getRolePath(card) {
    return card?.dataset.named ? ["roles", card.dataset.role] : [];
  }

  #onClick(event) {
    const button = event.target.closest("button[data-do]");
    if (!button || !this.box.contains(button)) return;
    const card = button.closest("[data-role]");
    const action = {
      "add-role": () => this.#addRole(),
      "remove-role": () => this.applyEdit((document) => removeRole(document, card.dataset.role)),
      "add-variable": () => addRow(this.box.querySelector("[data-pairs=env]"), getTemplate("pair-template")),
      "add-role-variable": () => addRow(card.querySelector("[data-pairs]"), getTemplate("pair-template")),
      "add-secret": () => addRow(this.box.querySelector("[data-secrets]"), getTemplate("secret-template")),
      "remove-pair": () => this.#removePair(button.closest(".pair-row")),
    }[button.dataset.do];
    action?.();
  }

  #addRole() {
    this.applyEdit(addRole);
    this.box.querySelector("[data-roles]").lastElementChild?.querySelector("[data-role-bind=name]").select();
  }

  #removePair(row) {
    const next = row.nextElementSibling?.querySelector("input") ?? row.parentElement.parentElement.querySelector(".button.small[data-do^=add]");
    if (!row.dataset.name) row.remove();
    else if (row.classList.contains("secret-row")) this.#changeSecret(row, "", "");
    else this.#changeVariable(row, "", "");
    next?.focus();
  }
}

function showValue(input, value) {
  if (input.type === "checkbox") input.checked = Boolean(value);
  else setInputValue(input, value ?? "");
}

function createDatasetChoice(dataset) {
  const choice = document.getElementById("dataset-template").content.firstElementChild.cloneNode(true);
  choice.querySelector("input").value = dataset.name;
  choice.querySelector("[data-label]").textContent = dataset.label;
  choice.querySelector("[data-tip]").textContent = dataset.tip;
  choice.title = dataset.about;
  return choice;
}

// Returns the field whose path is the longest prefix of the problem's path: roles.a.resources.cpu, then roles.a.resources.
function findField(fields, path) {
  let best = null;
  for (const field of fields) {
    const own = field.dataset.path;
    const fits = path === own || path.startsWith(`${own}.`) || path.startsWith(`${own}[`) || (own.endsWith("command") && path.startsWith(`${own}s`));
    if (fits && (!best || own.length > best.dataset.path.length)) best = field;
  }
  return best;
}
