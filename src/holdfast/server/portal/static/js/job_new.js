// The page of a new job. The text of the file is the truth: the form shows it and changes it, the server judges it.
import { bundled } from "./bundled.js";
import { ask } from "./dialogs.js";
import { JobCheck, Verdict, whatHinders } from "./job_check.js";
import { completions } from "./job_complete.js";
import { JobDocument } from "./job_document.js";
import { plainEditor, richEditor } from "./job_editor.js";
import { startFiles } from "./job_files.js";
import { JobForm } from "./job_form.js";
import { fillSecrets, findSecrets, maskSecrets } from "./job_secrets.js";

const DRAFT = "holdfast.new-job"; // in this tab's own storage, without secrets
const form = document.getElementById("new-job");
const field = document.getElementById("text");
const group = document.getElementById("f-group");
const words = document.getElementById("words").dataset;
const find = (selector) => document.querySelector(selector);

class NewJobPage {
  constructor(lib) {
    this.lib = lib; // null: without the bundle there is the text alone
    this.choices = JSON.parse(form.dataset.choices);
    this.answer = null;
    this.sent = false;
    this.form = lib && new JobForm(form, { choices: this.choices, change: (edit) => this.changeByForm(edit) });
    this.editor = lib ? richEditor(lib, field, document.getElementById("editor"), (text) => this.typed(text), completions(() => this.form.choices, () => this.document.ours || !this.document.readable)) : plainEditor(field, (text) => this.typed(text));
    this.verdict = new Verdict(document.getElementById("verdict"), (line) => this.editor.goToLine(line));
    this.check = new JobCheck({
      read: () => ({ text: this.filled(new Map(this.secretNames().map((name) => [name, "filled in"]))), group: this.override() }),
      show: (answer) => this.judged(answer),
      fail: (kind) => this.hindered(kind),
      busy: (on) => this.verdict.busy(on),
    });
  }

  start() {
    for (const part of document.querySelectorAll("[data-needs-script]")) part.hidden = false;
    for (const part of document.querySelectorAll("[data-without-script]")) part.hidden = true;
    if (this.lib) find("[data-editor-keys]").hidden = false;
    this.initial = form.dataset.refused === undefined ? this.editor.text : "";
    this.restore();
    if (this.lib) this.absorb();
    this.textChanged(this.editor.text, 0);
    this.listen();
  }

  listen() {
    group.addEventListener("change", () => this.groupChosen());
    form.addEventListener("submit", (event) => this.submit(event));
    window.addEventListener("beforeunload", (event) => {
      if (!this.sent && this.editor.text !== this.initial) event.preventDefault();
    });
    window.addEventListener("pageshow", () => this.returned());
    document.addEventListener("click", (event) => this.clicked(event));
    startFiles({
      most: Number(form.dataset.most),
      take: (text) => this.replace(text),
      fail: (text) => this.verdict.say(text),
      text: () => ({ text: this.hidden() ?? this.editor.text, name: this.document?.readable ? String(this.document.values().name ?? "") : "", kind: this.document?.json ? "json" : "yaml" }),
    });
  }

  // -- the file changed, or the form

  typed(text) {
    this.touched = true;
    this.textChanged(text);
  }

  textChanged(text, pause) {
    const wasOurs = this.document?.ours;
    if (this.lib) this.document = new JobDocument(this.lib.yaml, text);
    if (wasOurs && this.document.readable && !this.document.ours) group.value = ""; // its own file says which
    this.answer = null;
    this.showForm();
    this.keep();
    this.check.ask(pause);
  }

  changeByForm(edit) {
    if (!this.document.ours) return;
    edit(this.document);
    this.editor.setText(this.document.text);
    this.typed(this.editor.text);
  }

  // From a file, an example or another format: secrets that came along are hidden at once.
  replace(text) {
    this.touched = true;
    this.form?.secrets.clear();
    this.editor.setText(text);
    if (this.lib) this.absorb();
    this.textChanged(this.editor.text, 0);
    this.editor.focus();
  }

  showForm() {
    if (!this.lib) return;
    const mine = this.document;
    const known = this.answer?.yaml && !mine.ours ? new JobDocument(this.lib.yaml, this.answer.yaml) : null;
    const shown = mine.ours ? mine : known?.readable ? known : null;
    if (shown || !mine.readable) this.form.show(this.lib.yaml, shown ?? this.last, mine.ours, this.editor.text);
    if (shown) this.last = shown;
    find("[data-note=long]").hidden = !mine.tooLong;
    find("[data-note=unreadable]").hidden = mine.readable || mine.tooLong;
    find("[data-note=foreign]").hidden = !mine.readable || mine.ours;
    find("[data-do=convert]").disabled = !known;
    if (mine.ours) this.showGroup(this.form.job.group);
    if (mine.tooLong) this.form.box.hidden = true;
  }

  // -- what the server says

  judged(answer) {
    this.answer = answer;
    this.hopeless = answer.verdict === "never" ? this.editor.text : null; // leaving a field asks again for the same text
    this.verdict.show(answer);
    this.editor.showProblems(answer.problems);
    this.showDialect(answer.dialect);
    if (!this.lib) return;
    if (!this.document.ours) this.showForm();
    this.form.showProblems(answer.problems);
    this.panelFor(this.document.ours ? this.form.job.group : this.override() || this.last?.at(["group"]) || "");
  }

  showDialect(dialect) {
    const tag = find("[data-dialect]");
    tag.hidden = !dialect || dialect === "holdfast";
    tag.textContent = words[dialect.replace(/-(.)/g, (_, letter) => letter.toUpperCase())] ?? dialect;
  }

  // -- the group: written into our own files; for others, sent beside them

  override() {
    return this.document?.ours ? "" : group.value;
  }

  showGroup(name) {
    const known = [...group.options].some((option) => option.value === name);
    if (document.activeElement !== group) group.value = known ? name : "";
  }

  groupChosen() {
    if (this.document?.ours) this.changeByForm((document) => document.set(["group"], group.value));
    else this.check.ask(0);
    this.panelFor(group.value);
  }

  async panelFor(name) {
    const wanted = name || form.dataset.usual;
    if (!wanted || wanted === this.form?.choices.group || wanted === this.asked) return;
    this.asked = wanted;
    const response = await fetch(`/jobs/new/choices?group=${encodeURIComponent(wanted)}`).catch(() => null);
    const isJson = response?.headers.get("content-type")?.startsWith("application/json");
    if (!response?.ok || !isJson || this.asked !== wanted) return;
    const { panel, ...choices } = await response.json();
    if (!choices.group) return;
    document.getElementById("group-panel").innerHTML = panel; // ours, and escaped by the server
    if (!this.form) return;
    this.form.choices = choices;
    this.showForm();
  }

  // -- secrets

  secretNames() {
    return this.form ? [...this.form.secrets.keys()].filter((name) => this.form.secrets.get(name)) : [];
  }

  filled(values = this.form?.secrets) {
    return this.lib ? fillSecrets(this.lib.yaml, this.editor.text, values) : this.editor.text;
  }

  hidden() {
    return this.lib ? maskSecrets(this.lib.yaml, this.editor.text) : null;
  }

  absorb() {
    const found = findSecrets(this.lib.yaml, this.editor.text) ?? [];
    for (const secret of found) if (!secret.masked && secret.value) this.form.secrets.set(secret.name, secret.value);
    const hidden = this.hidden();
    if (hidden !== null) this.editor.setText(hidden);
  }

  // -- drafts

  keep() {
    if (!this.touched) return;
    const text = this.document?.ours && this.editor.text !== this.initial ? this.hidden() : null;
    try {
      if (text) sessionStorage.setItem(DRAFT, text);
      else sessionStorage.removeItem(DRAFT);
    } catch {
      // A browser that keeps nothing: then nothing is kept.
    }
  }

  restore() {
    let kept = null;
    try {
      kept = sessionStorage.getItem(DRAFT);
    } catch {
      return;
    }
    if (!kept || form.dataset.fresh === undefined || kept === this.initial) return;
    document.getElementById("kept-note").hidden = false;
    this.editor.setText(kept);
  }

  // -- buttons

  async clicked(event) {
    const button = event.target.closest("button");
    if (!button) return;
    if (button.dataset.example !== undefined) {
      button.closest("details").open = false;
      const untouched = this.editor.text === this.initial || this.fromExample === this.editor.text;
      if (!untouched && !(await ask(words.replace))) return;
      this.replace(button.querySelector("template").content.textContent);
      this.fromExample = this.editor.text;
    } else if (button.dataset.do === "convert") {
      this.convert();
    } else if (button.dataset.do === "start-afresh") {
      document.getElementById("kept-note").hidden = true;
      this.replace(this.initial);
    }
  }

  // What the other format says beyond a job stays behind, but for storages, which jobs of ours know, too.
  convert() {
    this.absorb();
    const converted = new JobDocument(this.lib.yaml, this.answer.yaml);
    converted.remove(["extras", "primehub"]);
    for (const key of Object.keys(converted.at(["extras", "openpai"]) ?? {})) if (key !== "storages") converted.remove(["extras", "openpai", key]);
    this.editor.setText(converted.text);
    this.textChanged(this.editor.text, 0);
  }

  // Sent only where it can arrive; with its secrets, which the field is given for that moment.
  submit(event) {
    if (this.cleared) return this.send();
    event.preventDefault();
    if (this.sent) return;
    const missing = this.lib && !event.submitter?.matches("[data-schedule]") ? this.form.unfilled(this.lib.yaml, this.editor.text) : [];
    if (missing.length) return this.askFor(missing);
    this.sent = true;
    this.meant(event.submitter).then(async (meant) => {
      const kind = meant && (await whatHinders());
      this.sent = false;
      if (!meant) return;
      if (kind) return this.hindered(kind);
      this.cleared = true;
      form.requestSubmit(event.submitter);
      this.cleared = false;
    });
  }

  // What can never run here is submitted only by who wants just that.
  async meant(button) {
    return this.hopeless !== this.editor.text || Boolean(button?.matches("[data-schedule]")) || ask(words.never);
  }

  send() {
    field.value = this.filled();
    if (this.document?.ours) group.value = "";
    this.sent = true;
    this.initial = this.editor.text;
    this.keep();
  }

  askFor(missing) {
    this.verdict.say(words.unfilled.replace("{names}", missing.join(", ")));
    (this.form.box.querySelector(".secret-row.unfilled [data-pair=value]") ?? field).focus();
  }

  hindered(kind) {
    this.verdict.say(kind === "logged-out" ? words.loggedOut : words.unreachable);
  }

  // Back from another page: the browser may have kept this one as it was.
  returned() {
    this.sent = false;
    if (this.lib) field.value = this.editor.text;
  }
}

const lib = await bundled("editor");
new NewJobPage(lib).start();
