// The debugger page: pdb over a WebSocket into the task, with the program's position beside it.
import { DebuggerStream, baseName, parsePosition } from "./debugger_stream.js";
import { askConfirmation } from "./dialogs.js";
import { StatusText } from "./status_text.js";
import { TaskSocket } from "./task_socket.js";

const EVENTS_REQUEST = "#holdfast json\n"; // asks paipdb for events
const PROMPT = "(Pdb) ";
const MAX_CONSOLE_SIZE = 200_000; // characters of the console
const MAX_HISTORY = 200; // lines

class DebuggerView {
  #socket = null;
  #ended = false;
  #consoleSize = 0; // characters in the console
  #history = loadHistory();
  #historyIndex = this.#history.length; // index of the line in the field

  constructor(section) {
    this.section = section;
    this.status = new StatusText(section);
    this.console = section.querySelector("[data-console]");
    this.form = section.querySelector("[data-prompt]");
    this.field = this.form.elements.line;
    this.reconnectButton = section.querySelector("[data-do=reconnect]");
  }

  start() {
    this.section.addEventListener("click", (event) => {
      const command = event.target.closest("[data-command]");
      if (command) this.#runCommand(command);
    });
    this.reconnectButton.addEventListener("click", () => this.connect());
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.#submitLine(this.field.value);
    });
    this.field.addEventListener("keydown", (event) => this.#onKey(event));
    this.connect();
  }

  connect() {
    this.#socket?.close();
    this.#ended = false;
    this.console.textContent = "";
    this.#consoleSize = 0;
    this.reconnectButton.hidden = true;
    this.#showState("connecting");
    const stream = new DebuggerStream({ onText: (text) => this.#appendOutput(text), onEvent: (event) => this.#handleEvent(event) });
    const handlers = {
      onData: (bytes, acknowledge) => socket === this.#socket && (stream.addBytes(bytes), acknowledge()),
      onControl: (message) => socket === this.#socket && this.#handleControl(message),
      onRefused: (why) => socket === this.#socket && this.#showEnd("refused", { why }),
      onClosed: () => socket === this.#socket && !this.#ended && this.#showEnd("gone"),
    };
    const socket = new TaskSocket(this.section.dataset.job, this.section.dataset.socket, handlers);
    this.#socket = socket;
  }

  #handleControl(message) {
    if (message.entered) this.#socket.send(EVENTS_REQUEST);
    if (message.end) this.#showEnd("gone");
  }

  #handleEvent(event) {
    if (event.event === "prompt") this.#showPrompt(parsePosition(event));
    if (event.event === "running") this.#showState("running");
  }

  #showPrompt(position) {
    this.#removePrompt();
    this.#showState("waiting", { place: `${baseName(position.file)}:${position.line}`, function: position.function });
    this.#showSource(position);
    this.#showStack(position);
    if (document.activeElement === document.body || this.section.contains(document.activeElement)) this.field.focus({ preventScroll: true });
  }

  #showEnd(state, names) {
    this.#ended = true;
    this.#showState(state, names);
    this.reconnectButton.hidden = false;
  }

  #showState(state, names = {}) {
    this.section.dataset.state = state;
    this.status.show(state, names);
    for (const button of this.section.querySelectorAll("[data-command]")) {
      button.disabled = (state === "running") !== (button.dataset.when === "running") || !["running", "waiting"].includes(state);
    }
    this.field.disabled = this.#ended || state === "connecting";
  }

  // -- the console

  async #runCommand(button) {
    if (button.dataset.ask && !(await askConfirmation(button.dataset.ask))) return;
    this.#sendLine(button.dataset.command);
  }

  #submitLine(text) {
    if (text.trim() && this.#history.at(-1) !== text) this.#history = saveHistory([...this.#history, text].slice(-MAX_HISTORY));
    this.#historyIndex = this.#history.length;
    this.field.value = "";
    this.#sendLine(text);
  }

  #sendLine(text) {
    if (!this.#socket?.isOpen) return;
    if (text !== "\x03") this.#appendOutput(`${text}\n`);
    this.#socket.send(text === "\x03" ? text : `${text}\n`);
  }

  #onKey(event) {
    const step = { ArrowUp: -1, ArrowDown: 1 }[event.key];
    if (!step) return;
    event.preventDefault();
    this.#historyIndex = Math.max(0, Math.min(this.#history.length, this.#historyIndex + step));
    this.field.value = this.#history[this.#historyIndex] ?? "";
  }

  #appendOutput(text) {
    this.console.append(text);
    this.#consoleSize += text.length;
    if (this.#consoleSize > MAX_CONSOLE_SIZE) {
      this.console.textContent = this.console.textContent.slice(-MAX_CONSOLE_SIZE / 2);
      this.#consoleSize = this.console.textContent.length;
    }
    this.console.scrollTop = this.console.scrollHeight;
  }

  // Removes an unanswered prompt, so that it is not shown twice.
  #removePrompt() {
    const last = this.console.lastChild;
    if (!last?.nodeValue.endsWith(PROMPT)) return;
    last.nodeValue = last.nodeValue.slice(0, -PROMPT.length);
    this.#consoleSize -= PROMPT.length;
  }

  // -- the position

  #showSource(position) {
    const box = this.section.querySelector("[data-source]");
    const rows = position.source.map(({ number, text }) => {
      const row = document.createElement("div");
      row.className = "source-line";
      row.dataset.number = number;
      row.textContent = text || " ";
      if (number === position.line) row.setAttribute("aria-current", "step");
      return row;
    });
    box.replaceChildren(...rows);
    this.section.querySelector("[data-file]").textContent = position.file;
    const current = box.querySelector("[aria-current]");
    if (current) box.scrollTop = current.offsetTop - box.offsetTop - box.clientHeight / 2;
  }

  // Innermost first. A click on a frame sends the number of steps up or down to it.
  #showStack(position) {
    const items = position.stack.map((frame, at) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = `${frame.function} — ${baseName(frame.file)}:${frame.line}`;
      button.title = `${frame.file}:${frame.line}`;
      if (at === position.index) button.setAttribute("aria-current", "true");
      const steps = at - position.index;
      button.addEventListener("click", () => steps && this.#sendLine(steps > 0 ? `down ${steps}` : `up ${-steps}`));
      const item = document.createElement("li");
      item.append(button);
      return item;
    });
    this.section.querySelector("[data-stack]").replaceChildren(...items.reverse());
  }
}

const HISTORY_KEY = "debugger.history";

function loadHistory() {
  try {
    const stored = JSON.parse(sessionStorage.getItem(HISTORY_KEY) ?? "[]");
    return Array.isArray(stored) ? stored.map(String) : [];
  } catch {
    return []; // storage is disabled
  }
}

function saveHistory(history) {
  try {
    sessionStorage.setItem(HISTORY_KEY, JSON.stringify(history));
  } catch {
    // Storage is disabled: the history lasts until the page is closed.
  }
  return history;
}

const section = document.querySelector("[data-debugger]");
if (section) new DebuggerView(section).start();
