// The terminal page: xterm.js over a WebSocket into the task. It reconnects only on request, since a lost connection ends
// the shell.
import { loadBundle } from "./bundles.js";
import { copyText } from "./copy.js";
import { StatusText } from "./status_text.js";
import { TaskSocket } from "./task_socket.js";
import { allowTerminalStyles } from "./terminal_styles.js";
import { getTheme, onThemeChange } from "./terminal_theme.js";

const SCROLLBACK = 10000; // lines
const RESIZE_INTERVAL = 100; // ms without a change before the terminal is resized

class TerminalView {
  #socket = null;
  #ended = false; // whether the session has ended

  constructor(section, lib) {
    this.section = section;
    this.status = new StatusText(section);
    this.reconnectButton = section.querySelector("[data-do=reconnect]");
    this.terminal = new lib.Terminal({
      theme: getTheme(),
      fontFamily: getComputedStyle(section).getPropertyValue("--mono"),
      fontSize: 14,
      scrollback: SCROLLBACK,
      minimumContrastRatio: 4.5,
      macOptionIsMeta: true,
    });
    this.fit = new lib.FitAddon();
    this.terminal.loadAddon(this.fit);
  }

  start() {
    const box = this.section.querySelector("[data-box]");
    this.terminal.open(box);
    this.terminal.textarea.setAttribute("aria-label", this.status.format("label"));
    this.fit.fit();
    this.#listen(box);
    this.connect();
  }

  #listen(box) {
    this.terminal.onData((text) => this.#socket?.send(text));
    this.terminal.onBinary((text) => this.#socket?.send(Uint8Array.from(text, (letter) => letter.charCodeAt(0))));
    this.terminal.onResize(({ cols, rows }) => this.#socket?.sendControl({ resize: [cols, rows] }));
    this.terminal.attachCustomKeyEventHandler((event) => this.#onKey(event));
    let timer = 0;
    new ResizeObserver(() => {
      clearTimeout(timer);
      timer = setTimeout(() => this.fit.fit(), RESIZE_INTERVAL);
    }).observe(box);
    onThemeChange((colours) => { this.terminal.options.theme = colours; });
    this.reconnectButton.addEventListener("click", () => this.connect());
    this.section.querySelector("[data-do=copy]").addEventListener("click", () => this.#copySelection());
    const reader = this.section.querySelector("[data-reader]");
    reader.addEventListener("change", () => { this.terminal.options.screenReaderMode = reader.checked; });
  }

  connect() {
    this.#socket?.close();
    this.#ended = false;
    this.terminal.reset();
    this.#showState("connecting");
    const { cols, rows } = this.terminal;
    const handlers = {
      onData: (bytes, acknowledge) => socket === this.#socket && this.terminal.write(bytes, acknowledge),
      onControl: (message) => socket === this.#socket && this.#handleControl(message),
      onRefused: (why) => socket === this.#socket && this.#showEnd("refused", { why }),
      onClosed: () => socket === this.#socket && !this.#ended && this.#showEnd("lost"),
    };
    const { job, socket: address } = this.section.dataset;
    const socket = new TaskSocket(job, address, handlers, { terminal: { columns: cols, rows, term: "xterm-256color" } });
    this.#socket = socket;
  }

  #handleControl(message) {
    if (message.entered) this.#handleOpen();
    if (message.exit !== undefined) this.#showEnd("exited", { code: message.exit });
  }

  // The size may have changed since the request.
  #handleOpen() {
    const { cols, rows } = this.terminal;
    this.#socket.sendControl({ resize: [cols, rows] });
    this.#showState("open");
    this.terminal.focus();
  }

  #showEnd(state, values) {
    this.#ended = true;
    this.#showState(state, values);
    this.section.classList.add("ended");
    this.reconnectButton.hidden = false;
    if (document.activeElement === this.terminal.textarea) this.reconnectButton.focus();
  }

  #showState(state, values) {
    this.status.show(state, values);
    this.status.element.classList.toggle("lost", state === "lost" || state === "refused");
    this.section.classList.remove("ended");
    this.reconnectButton.hidden = true;
  }

  // Leaves Ctrl+Shift+V to the browser. Tab goes to the shell, so Shift+F6 moves the focus out of the terminal.
  #onKey(event) {
    if (event.ctrlKey && event.shiftKey && event.code === "KeyV") return false;
    if (event.ctrlKey && event.shiftKey && event.code === "KeyC") {
      event.preventDefault();
      if (event.type === "keydown") this.#copySelection();
      return false;
    }
    if (event.shiftKey && event.key === "F6") {
      if (event.type === "keydown") document.getElementById("terminal-task").focus();
      return false;
    }
    return true;
  }

  #copySelection() {
    const text = this.terminal.getSelection();
    if (text) copyText(text);
    this.terminal.focus();
  }
}

async function start() {
  const section = document.querySelector("[data-terminal]");
  if (!section) return;
  const lib = await loadBundle("terminal");
  if (!lib) return showAlternatives(section);
  allowTerminalStyles();
  new TerminalView(section, lib).start();
}

// Without the bundle, shows the other ways to open a shell.
function showAlternatives(section) {
  section.hidden = true;
  document.querySelector(".terminal-alternatives").classList.remove("unscripted");
}

start();
