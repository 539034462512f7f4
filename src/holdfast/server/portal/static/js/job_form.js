// The form beside the file: shows what a document holds, and tells which change somebody made.
import { addRole, readJob, removeRole, renameRole, renameTo, writeJob, writeRole, writeVariable } from "./job_fields.js";
import { findSecrets, MASK } from "./job_secrets.js";
import { chosenImage, showRoles } from "./job_roles.js";
import { addRow, adopt, put, showRows } from "./job_rows.js";

const template = (id) => document.getElementById(id);

export class JobForm {
  // `change(edit)`: calls edit(document), and puts what came of it into the file.
  constructor(root, { choices, change }) {
    this.root = root;
    this.box = root.querySelector("[data-form]");
    this.choices = choices;
    this.change = change;
    this.secrets = new Map(); // name -> what was typed; in this page's memory and nowhere else
    root.addEventListener("input", (event) => this.#input(event));
    root.addEventListener("change", (event) => this.#input(event));
    root.addEventListener("click", (event) => this.#click(event));
    root.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && event.target.matches(".new-form input")) event.preventDefault(); // it would submit
    });
  }

  // -- showing

  // `shown`: the document that fills the form; `editable`: whether it is the file itself; `text`: the file.
  show(yaml, shown, editable, text) {
    this.box.hidden = !shown;
    this.box.disabled = !editable;
    if (!shown) return;
    const job = readJob(shown);
    this.job = job;
    for (const input of this.box.querySelectorAll("[data-bind]")) showValue(input, job[input.dataset.bind]);
    this.box.querySelector("[data-when-held]").hidden = !job.hold;
    showRoles(this.box.querySelector("[data-roles]"), job, this.choices);
    showRows(this.box.querySelector("[data-pairs=env]"), template("pair-template"), job.env, (row, [, value]) => put(row.querySelector("[data-pair=value]"), value));
    this.#showSecrets(findSecrets(yaml, text) ?? []);
    this.#showDatasets(job.datasets);
    this.box.querySelector("[data-bind=time_limit]").placeholder = this.choices.time_limit;
  }

  #showSecrets(found) {
    const rows = found.map((secret) => [secret.name, secret]);
    showRows(this.box.querySelector("[data-secrets]"), template("secret-template"), rows, (row, [name, secret]) => {
      const value = secret.masked ? this.secrets.get(name) ?? "" : secret.value;
      const input = row.querySelector("[data-pair=value]");
      put(input, value);
      input.placeholder = input.dataset.again;
      row.classList.toggle("unfilled", value === "");
    });
  }

  #showDatasets(chosen) {
    const box = this.box.querySelector("[data-datasets]");
    const known = this.choices.datasets;
    const listed = [...known, ...chosen.filter((name) => !known.some((one) => one.name === name)).map((name) => ({ name, label: name, tip: template("gone-words").content.textContent, about: "" }))];
    const mark = JSON.stringify(listed);
    if (box.dataset.shown !== mark) {
      box.dataset.shown = mark;
      box.replaceChildren(...listed.map(datasetChoice));
    }
    for (const input of box.querySelectorAll("input")) input.checked = chosen.includes(input.value);
    this.box.querySelector("[data-no-datasets]").hidden = listed.length > 0;
  }

  // Names of secrets that the file hides and nobody filled in.
  unfilled(yaml, text) {
    return (findSecrets(yaml, text) ?? []).filter((secret) => secret.masked && !this.secrets.get(secret.name)).map((secret) => secret.name);
  }

  // Each problem at the field it is about; true: there is one.
  showProblems(problems) {
    const fields = [...this.root.querySelectorAll(".field[data-path]")];
    const told = new Map();
    for (const problem of problems) {
      const field = nearestField(fields, problem.field);
      if (field) told.set(field, [...(told.get(field) ?? []), [problem.message, problem.hint].filter(Boolean).join("\n")]);
    }
    for (const field of fields) {
      const said = (told.get(field) ?? []).join("\n");
      const place = field.querySelector(":scope > .problem");
      place.textContent = said;
      place.hidden = !said;
      field.classList.toggle("wrong", Boolean(said));
      for (const input of field.querySelectorAll("input, textarea, select")) said ? input.setAttribute("aria-invalid", "true") : input.removeAttribute("aria-invalid");
      if (said) field.closest("details")?.setAttribute("open", "");
    }
  }

  // -- changing

  #input(event) {
    const input = event.target;
    if (!this.box.contains(input)) return;
    const card = input.closest("[data-role]");
    if (input.dataset.pair) this.#pair(input, event.type);
    else if (input.closest("[data-datasets]")) this.#datasets();
    else if (input.dataset.bind) this.change((document) => writeJob(document, input.dataset.bind, input.type === "checkbox" ? input.checked : input.value));
    else if (card) this.#role(card, input, event.type);
  }

  #role(card, input, kind) {
    const path = this.#path(card);
    if (input.type === "radio") this.change((document) => writeRole(document, path, "instance_type", input.value));
    else if (input.dataset.image !== undefined) this.#image(card, path);
    else if (input.dataset.roleBind === "name") {
      if (kind === "change") this.change((document) => renameRole(document, card.dataset.role, input.value.trim()));
    } else this.change((document) => writeRole(document, path, input.dataset.roleBind, input.value));
  }

  #image(card, path) {
    const image = chosenImage(card);
    if (image !== null) this.change((document) => writeRole(document, path, "image", image));
  }

  #datasets() {
    const chosen = [...this.box.querySelectorAll("[data-datasets] input:checked")].map((input) => input.value);
    this.change((document) => writeJob(document, "datasets", chosen));
  }

  // A name counts once it was left: every letter on the way to it would be a variable of its own.
  #pair(input, kind) {
    const row = input.closest(".pair-row");
    const [name, value] = ["name", "value"].map((part) => row.querySelector(`[data-pair=${part}]`).value);
    if (input.dataset.pair === "name" && kind !== "change") return;
    if (!name.trim() && !row.dataset.name) return;
    if (row.classList.contains("secret-row")) this.#secret(row, name.trim(), value);
    else this.#variable(row, name.trim(), value);
  }

  #variable(row, name, value) {
    const before = row.dataset.name ?? "";
    if (name) adopt(row, name);
    this.change((document) => writeVariable(document, this.#path(row.closest("[data-role]")), before, name, value));
  }

  // The file shows the mask; what it stands for stays here until the job is submitted.
  #secret(row, name, value) {
    const before = row.dataset.name ?? "";
    if (before && before !== name) this.secrets.delete(before);
    if (name) this.secrets.set(name, value);
    if (name) adopt(row, name);
    const path = (known) => ["secrets", ...known.split(".")];
    this.change((document) => {
      if (before && !name) document.remove(path(before));
      else if (before && before !== name && !before.includes(".")) renameTo(document, ["secrets"], before, name);
      if (name && document.at(path(name)) !== MASK) document.set(path(name), MASK);
    });
  }

  #path(card) {
    return card?.dataset.named ? ["roles", card.dataset.role] : [];
  }

  #click(event) {
    const button = event.target.closest("button[data-do]");
    if (!button || !this.box.contains(button)) return;
    const card = button.closest("[data-role]");
    const act = {
      "add-role": () => this.#addRole(),
      "remove-role": () => this.change((document) => removeRole(document, card.dataset.role)),
      "add-variable": () => addRow(this.box.querySelector("[data-pairs=env]"), template("pair-template")),
      "add-role-variable": () => addRow(card.querySelector("[data-pairs]"), template("pair-template")),
      "add-secret": () => addRow(this.box.querySelector("[data-secrets]"), template("secret-template")),
      "remove-pair": () => this.#removePair(button.closest(".pair-row")),
    }[button.dataset.do];
    act?.();
  }

  #addRole() {
    this.change(addRole);
    this.box.querySelector("[data-roles]").lastElementChild?.querySelector("[data-role-bind=name]").select();
  }

  #removePair(row) {
    const next = row.nextElementSibling?.querySelector("input") ?? row.parentElement.parentElement.querySelector(".button.small[data-do^=add]");
    if (!row.dataset.name) row.remove();
    else if (row.classList.contains("secret-row")) this.#secret(row, "", "");
    else this.#variable(row, "", "");
    next?.focus();
  }
}

function showValue(input, value) {
  if (input.type === "checkbox") input.checked = Boolean(value);
  else put(input, value ?? "");
}

function datasetChoice(dataset) {
  const choice = document.getElementById("dataset-template").content.firstElementChild.cloneNode(true);
  choice.querySelector("input").value = dataset.name;
  choice.querySelector("[data-label]").textContent = dataset.label;
  choice.querySelector("[data-tip]").textContent = dataset.tip;
  choice.title = dataset.about;
  return choice;
}

// The field whose path is the longest beginning of the problem's: roles.a.resources.cpu, then roles.a.resources.
function nearestField(fields, path) {
  let best = null;
  for (const field of fields) {
    const own = field.dataset.path;
    const fits = path === own || path.startsWith(`${own}.`) || path.startsWith(`${own}[`) || (own.endsWith("command") && path.startsWith(`${own}s`));
    if (fits && (!best || own.length > best.dataset.path.length)) best = field;
  }
  return best;
}
