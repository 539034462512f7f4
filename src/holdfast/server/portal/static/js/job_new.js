// The page of a new job. The file is the source of truth: the form shows and changes it, the server checks it.
import { loadBundle } from "./bundles.js";
import { askConfirmation } from "./dialogs.js";
import { JobChecker, VerdictCard, checkConnection } from "./job_check.js";
import { createCompletionSource } from "./job_completion.js";
import { JobDocument } from "./job_document.js";
import { createPlainEditor, createRichEditor } from "./job_editor.js";
import { startFiles } from "./job_files.js";
import { JobForm } from "./job_form.js";
import { fillSecrets, findSecrets, maskSecrets } from "./job_secrets.js";

const DRAFT_KEY = "holdfast.new-job"; // in sessionStorage, without secrets
const form = document.getElementById("new-job");
const field = document.getElementById("text");
const group = document.getElementById("f-group");
const texts = document.getElementById("texts").dataset;
const select = (selector) => document.querySelector(selector);

class NewJobPage {
  constructor(lib) {
    this.lib = lib; // null without the bundle: text only, no form
    this.choices = JSON.parse(form.dataset.choices);
    this.result = null;
    this.isSubmitting = false;
    this.form = lib && new JobForm(form, { choices: this.choices, applyEdit: (edit) => this.applyFormEdit(edit) });
    this.editor = lib ? createRichEditor(lib, field, document.getElementById("editor"), (text) => this.onTyped(text), createCompletionSource(() => this.form.choices, () => this.document.isHoldfast || !this.document.isReadable)) : createPlainEditor(field, (text) => this.onTyped(text));
    this.verdict = new VerdictCard(document.getElementById("verdict"), (line) => this.editor.goToLine(line));
    this.checker = new JobChecker({
      getFields: () => ({ text: this.getFilledText(new Map(this.listSecretNames().map((name) => [name, "filled in"]))), group: this.getGroupOverride() }),
      onResult: (result) => this.showCheckResult(result),
      onFailure: (kind) => this.showFailure(kind),
      onBusy: (on) => this.verdict.setBusy(on),
    });
  }

  start() {
    for (const part of document.querySelectorAll("[data-needs-script]")) part.hidden = false;
    for (const part of document.querySelectorAll("[data-without-script]")) part.hidden = true;
    if (this.lib) select("[data-editor-keys]").hidden = false;
    this.initial = form.dataset.refused === undefined ? this.editor.text : "";
    this.restoreDraft();
    if (this.lib) this.extractSecrets();
    this.updateText(this.editor.text, 0);
    this.addListeners();
  }

  addListeners() {
    group.addEventListener("change", () => this.onGroupChange());
    form.addEventListener("submit", (event) => this.onSubmit(event));
    window.addEventListener("beforeunload", (event) => {
      if (!this.isSubmitting && this.editor.text !== this.initial) event.preventDefault();
    });
    window.addEventListener("pageshow", () => this.onReturn());
    document.addEventListener("click", (event) => this.onClick(event));
    startFiles({
      maxSize: Number(form.dataset.maxSize),
      onText: (text) => this.replaceText(text),
      onError: (text) => this.verdict.showMessage(text),
      getFile: () => ({ text: this.getMaskedText() ?? this.editor.text, name: this.document?.isReadable ? String(this.document.getValues().name ?? "") : "", kind: this.document?.isScript ? "sh" : this.document?.json ? "json" : "yaml" }),
    });
  }

  // -- the file changed, or the form

  onTyped(text) {
    this.isEdited = true;
    this.updateText(text);
  }

  updateText(text, pause) {
    const wasHoldfast = this.document?.isHoldfast;
    if (this.lib) this.document = new JobDocument(this.lib.yaml, text);
    if (wasHoldfast && (this.document.isReadable || this.document.isScript) && !this.document.isHoldfast) group.value = ""; // a file in another format sets its own group
    this.result = null;
    this.showForm();
    this.saveDraft();
    this.checker.request(pause);
  }

  applyFormEdit(edit) {
    if (!this.document.isHoldfast) return;
    edit(this.document);
    this.editor.setText(this.document.text);
    this.onTyped(this.editor.text);
  }

  // Loads a file, an example or a converted file, and masks its secrets.
  replaceText(text) {
    this.isEdited = true;
    this.form?.secrets.clear();
    this.editor.setText(text);
    if (this.lib) this.extractSecrets();
    this.updateText(this.editor.text, 0);
    this.editor.focus();
  }

  showForm() {
    if (!this.lib) return;
    const file = this.document;
    const converted = this.result?.yaml && !file.isHoldfast ? new JobDocument(this.lib.yaml, this.result.yaml) : null;
    const shown = file.isHoldfast ? file : converted?.isReadable ? converted : null;
    if (shown || !file.isReadable) this.form.showDocument(this.lib.yaml, shown ?? this.lastShown, file.isHoldfast, this.editor.text);
    if (shown) this.lastShown = shown;
    select("[data-note=long]").hidden = !file.isTooLong;
    select("[data-note=unreadable]").hidden = file.isReadable || file.isTooLong || file.isScript;
    select("[data-note=foreign]").hidden = !(file.isReadable || file.isScript) || file.isHoldfast;
    select("[data-do=convert]").disabled = !converted;
    select("[data-do=convert]").hidden = file.isScript; // its array and Slurm's variables would be lost
    if (file.isHoldfast) this.showGroup(this.form.job.group);
    if (file.isTooLong) this.form.box.hidden = true;
  }

  // -- results of the server

  showCheckResult(result) {
    this.result = result;
    this.neverRunsText = result.verdict === "never" ? this.editor.text : null; // a blur event checks the same text again
    this.verdict.showResult(result);
    this.editor.showProblems(result.problems);
    this.showDialect(result.dialect);
    if (!this.lib) return;
    if (!this.document.isHoldfast) this.showForm();
    this.form.showProblems(result.problems);
    this.loadGroupPanel(this.document.isHoldfast ? this.form.job.group : this.getGroupOverride() || this.lastShown?.get(["group"]) || "");
  }

  showDialect(dialect) {
    const tag = select("[data-dialect]");
    tag.hidden = !dialect || dialect === "holdfast";
    tag.textContent = texts[dialect.replace(/-(.)/g, (_, letter) => letter.toUpperCase())] ?? dialect;
  }

  // -- the group: part of a Holdfast file; sent separately with other formats

  getGroupOverride() {
    return this.document?.isHoldfast ? "" : group.value;
  }

  showGroup(name) {
    const isListed = [...group.options].some((option) => option.value === name);
    if (document.activeElement !== group) group.value = isListed ? name : "";
  }

  onGroupChange() {
    if (this.document?.isHoldfast) this.applyFormEdit((document) => document.set(["group"], group.value));
    else this.checker.request(0);
    this.loadGroupPanel(group.value);
  }

  async loadGroupPanel(name) {
    const wanted = name || form.dataset.defaultGroup;
    if (!wanted || wanted === this.form?.choices.group || wanted === this.requestedGroup) return;
    this.requestedGroup = wanted;
    const response = await fetch(`/jobs/new/choices?group=${encodeURIComponent(wanted)}`).catch(() => null);
    const isJson = response?.headers.get("content-type")?.startsWith("application/json");
    if (!response?.ok || !isJson || this.requestedGroup !== wanted) return;
    const { panel, ...choices } = await response.json();
    if (!choices.group) return;
    document.getElementById("group-panel").innerHTML = panel; // from the server, which escapes it
    if (!this.form) return;
    this.form.choices = choices;
    this.showForm();
  }

  // -- secrets

  listSecretNames() {
    return this.form ? [...this.form.secrets.keys()].filter((name) => this.form.secrets.get(name)) : [];
  }

  getFilledText(values = this.form?.secrets) {
    return this.lib ? fillSecrets(this.lib.yaml, this.editor.text, values) : this.editor.text;
  }

  getMaskedText() {
    return this.lib ? maskSecrets(this.lib.yaml, this.editor.text) : null;
  }

  extractSecrets() {
    const found = findSecrets(this.lib.yaml, this.editor.text) ?? [];
    for (const secret of found) if (!secret.masked && secret.value) this.form.secrets.set(secret.name, secret.value);
    const hidden = this.getMaskedText();
    if (hidden !== null) this.editor.setText(hidden);
  }

  // -- drafts

  saveDraft() {
    if (!this.isEdited) return;
    const text = this.document?.isHoldfast && this.editor.text !== this.initial ? this.getMaskedText() : null;
    try {
      if (text) sessionStorage.setItem(DRAFT_KEY, text);
      else sessionStorage.removeItem(DRAFT_KEY);
    } catch {
      // Storage is disabled: no drafts.
    }
  }

  restoreDraft() {
    let draft = null;
    try {
      draft = sessionStorage.getItem(DRAFT_KEY);
    } catch {
      return;
    }
    if (!draft || form.dataset.fresh === undefined || draft === this.initial) return;
    document.getElementById("kept-note").hidden = false;
    this.editor.setText(draft);
  }

  // -- buttons

  async onClick(event) {
    const button = event.target.closest("button");
    if (!button) return;
    if (button.dataset.example !== undefined) {
      button.closest("details").open = false;
      const untouched = this.editor.text === this.initial || this.fromExample === this.editor.text;
      if (!untouched && !(await askConfirmation(texts.replace))) return;
      this.replaceText(button.querySelector("template").content.textContent);
      this.fromExample = this.editor.text;
    } else if (button.dataset.do === "convert") {
      this.convertFile();
    } else if (button.dataset.do === "start-afresh") {
      document.getElementById("kept-note").hidden = true;
      this.replaceText(this.initial);
    }
  }

  // Drops everything specific to the other format except storages, which Holdfast supports, too.
  convertFile() {
    this.extractSecrets();
    const converted = new JobDocument(this.lib.yaml, this.result.yaml);
    converted.remove(["extras", "primehub"]);
    for (const key of Object.keys(converted.get(["extras", "openpai"]) ?? {})) if (key !== "storages") converted.remove(["extras", "openpai", key]);
    this.editor.setText(converted.text);
    this.updateText(this.editor.text, 0);
  }

  // Submits only if the server is reachable. The field contains the secrets only while it is submitted.
  onSubmit(event) {
    if (this.canSubmit) return this.prepareSubmit();
    event.preventDefault();
    if (this.isSubmitting) return;
    const missing = this.lib && !event.submitter?.matches("[data-schedule]") ? this.form.listUnfilledSecrets(this.lib.yaml, this.editor.text) : [];
    if (missing.length) return this.requestSecrets(missing);
    this.isSubmitting = true;
    this.confirmNeverRuns(event.submitter).then(async (confirmed) => {
      const kind = confirmed && (await checkConnection());
      this.isSubmitting = false;
      if (!confirmed) return;
      if (kind) return this.showFailure(kind);
      this.canSubmit = true;
      form.requestSubmit(event.submitter);
      this.canSubmit = false;
    });
  }

  // Asks for confirmation if the job can never run here.
  async confirmNeverRuns(button) {
    return this.neverRunsText !== this.editor.text || Boolean(button?.matches("[data-schedule]")) || askConfirmation(texts.never);
  }

  prepareSubmit() {
    field.value = this.getFilledText();
    if (this.document?.isHoldfast) group.value = "";
    this.isSubmitting = true;
    this.initial = this.editor.text;
    this.saveDraft();
  }

  requestSecrets(missing) {
    this.verdict.showMessage(texts.unfilled.replace("{names}", missing.join(", ")));
    (this.form.box.querySelector(".secret-row.unfilled [data-pair=value]") ?? field).focus();
  }

  showFailure(kind) {
    this.verdict.showMessage(kind === "logged-out" ? texts.loggedOut : texts.unreachable);
  }

  // Resets the page after back navigation: the browser may have restored it from its cache.
  onReturn() {
    this.isSubmitting = false;
    if (this.lib) field.value = this.editor.text;
  }
}

const lib = await loadBundle("editor");
new NewJobPage(lib).start();
