// The debugger of a page: pdb over a line into the task, with where the program stands shown beside it.
import { DebuggerStream, baseName, placeOf } from "./debugger_stream.js";
import { ask } from "./dialogs.js";
import { Words } from "./log_words.js";
import { TaskLine } from "./task_line.js";

const HELLO = "#holdfast json\n"; // asks paipdb to tell where the program stands
const PROMPT = "(Pdb) ";
const MAX_SHOWN = 200_000; // characters of the console
const MAX_KEPT = 200; // lines that were typed

class DebuggerView {
  #line = null;
  #over = false;
  #shown = 0; // characters in the console
  #typed = recall();
  #at = this.#typed.length; // which of them the field shows

  constructor(section) {
    this.section = section;
    this.words = new Words(section);
    this.console = section.querySelector("[data-console]");
    this.form = section.querySelector("[data-prompt]");
    this.field = this.form.elements.line;
    this.again = section.querySelector("[data-do=again]");
  }

  start() {
    this.section.addEventListener("click", (event) => {
      const command = event.target.closest("[data-command]");
      if (command) this.#press(command);
    });
    this.again.addEventListener("click", () => this.connect());
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.#enter(this.field.value);
    });
    this.field.addEventListener("keydown", (event) => this.#key(event));
    this.connect();
  }

  connect() {
    this.#line?.close();
    this.#over = false;
    this.console.textContent = "";
    this.#shown = 0;
    this.again.hidden = true;
    this.#show("connecting");
    const stream = new DebuggerStream({ text: (text) => this.#print(text), event: (event) => this.#event(event) });
    const heard = {
      data: (bytes, taken) => line === this.#line && (stream.add(bytes), taken()),
      said: (words) => line === this.#line && this.#said(words),
      refused: (why) => line === this.#line && this.#end("refused", { why }),
      closed: () => line === this.#line && !this.#over && this.#end("gone"),
    };
    const line = new TaskLine(this.section.dataset.job, this.section.dataset.line, heard);
    this.#line = line;
  }

  #said(words) {
    if (words.entered) this.#line.send(HELLO);
    if (words.end) this.#end("gone");
  }

  #event(event) {
    if (event.event === "prompt") this.#stand(placeOf(event));
    if (event.event === "running") this.#show("running");
  }

  #stand(place) {
    this.#dropPrompt();
    this.#show("waiting", { place: `${baseName(place.file)}:${place.line}`, function: place.function });
    this.#showSource(place);
    this.#showStack(place);
    if (document.activeElement === document.body || this.section.contains(document.activeElement)) this.field.focus({ preventScroll: true });
  }

  #end(how, names) {
    this.#over = true;
    this.#show(how, names);
    this.again.hidden = false;
  }

  #show(how, names = {}) {
    this.section.dataset.now = how;
    this.words.tell(how, names);
    for (const button of this.section.querySelectorAll("[data-command]")) {
      button.disabled = (how === "running") !== (button.dataset.when === "running") || !["running", "waiting"].includes(how);
    }
    this.field.disabled = this.#over || how === "connecting";
  }

  // -- the console

  async #press(button) {
    if (button.dataset.ask && !(await ask(button.dataset.ask))) return;
    this.#send(button.dataset.command);
  }

  #enter(text) {
    if (text.trim() && this.#typed.at(-1) !== text) this.#typed = keep([...this.#typed, text].slice(-MAX_KEPT));
    this.#at = this.#typed.length;
    this.field.value = "";
    this.#send(text);
  }

  #send(text) {
    if (!this.#line?.isOpen) return;
    if (text !== "\x03") this.#print(`${text}\n`);
    this.#line.send(text === "\x03" ? text : `${text}\n`);
  }

  #key(event) {
    const step = { ArrowUp: -1, ArrowDown: 1 }[event.key];
    if (!step) return;
    event.preventDefault();
    this.#at = Math.max(0, Math.min(this.#typed.length, this.#at + step));
    this.field.value = this.#typed[this.#at] ?? "";
  }

  #print(text) {
    this.console.append(text);
    this.#shown += text.length;
    if (this.#shown > MAX_SHOWN) {
      this.console.textContent = this.console.textContent.slice(-MAX_SHOWN / 2);
      this.#shown = this.console.textContent.length;
    }
    this.console.scrollTop = this.console.scrollHeight;
  }

  // A prompt that nobody answered is shown once, not each time that it comes.
  #dropPrompt() {
    const last = this.console.lastChild;
    if (!last?.nodeValue.endsWith(PROMPT)) return;
    last.nodeValue = last.nodeValue.slice(0, -PROMPT.length);
    this.#shown -= PROMPT.length;
  }

  // -- where it stands

  #showSource(place) {
    const box = this.section.querySelector("[data-source]");
    const rows = place.source.map(({ number, text }) => {
      const row = document.createElement("div");
      row.className = "source-line";
      row.dataset.number = number;
      row.textContent = text || " ";
      if (number === place.line) row.setAttribute("aria-current", "step");
      return row;
    });
    box.replaceChildren(...rows);
    this.section.querySelector("[data-file]").textContent = place.file;
    const now = box.querySelector("[aria-current]");
    if (now) box.scrollTop = now.offsetTop - box.offsetTop - box.clientHeight / 2;
  }

  // Innermost first. A frame that is chosen is gone to by as many steps up or down.
  #showStack(place) {
    const items = place.stack.map((frame, at) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = `${frame.function} — ${baseName(frame.file)}:${frame.line}`;
      button.title = `${frame.file}:${frame.line}`;
      if (at === place.index) button.setAttribute("aria-current", "true");
      const steps = at - place.index;
      button.addEventListener("click", () => steps && this.#send(steps > 0 ? `down ${steps}` : `up ${-steps}`));
      const item = document.createElement("li");
      item.append(button);
      return item;
    });
    this.section.querySelector("[data-stack]").replaceChildren(...items.reverse());
  }
}

const KEPT = "debugger.typed";

function recall() {
  try {
    const kept = JSON.parse(sessionStorage.getItem(KEPT) ?? "[]");
    return Array.isArray(kept) ? kept.map(String) : [];
  } catch {
    return []; // a browser may keep nothing
  }
}

function keep(typed) {
  try {
    sessionStorage.setItem(KEPT, JSON.stringify(typed));
  } catch {
    // It is known until the page is left.
  }
  return typed;
}

const section = document.querySelector("[data-debugger]");
if (section) new DebuggerView(section).start();
