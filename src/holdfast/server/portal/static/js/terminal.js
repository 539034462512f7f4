// The terminal of a page: xterm.js over a line into the task. A line that ends is opened again when somebody asks: what
// was running in it ended with it.
import { bundled } from "./bundled.js";
import { copyText } from "./copy.js";
import { Words } from "./log_words.js";
import { TaskLine } from "./task_line.js";
import { allowTerminalStyles } from "./terminal_styles.js";
import { onTheme, theme } from "./terminal_theme.js";

const SCROLLBACK = 10000; // lines
const SETTLED = 100; // ms after which a window that is dragged larger has its new size

class TerminalView {
  #line = null;
  #over = false; // the shell said how it ended

  constructor(section, lib) {
    this.section = section;
    this.words = new Words(section);
    this.again = section.querySelector("[data-do=again]");
    this.terminal = new lib.Terminal({
      theme: theme(),
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
    this.terminal.textarea.setAttribute("aria-label", this.words.say("label"));
    this.fit.fit();
    this.#listen(box);
    this.connect();
  }

  #listen(box) {
    this.terminal.onData((text) => this.#line?.send(text));
    this.terminal.onBinary((text) => this.#line?.send(Uint8Array.from(text, (letter) => letter.charCodeAt(0))));
    this.terminal.onResize(({ cols, rows }) => this.#line?.say({ resize: [cols, rows] }));
    this.terminal.attachCustomKeyEventHandler((event) => this.#key(event));
    let timer = 0;
    new ResizeObserver(() => {
      clearTimeout(timer);
      timer = setTimeout(() => this.fit.fit(), SETTLED);
    }).observe(box);
    onTheme((colours) => { this.terminal.options.theme = colours; });
    this.again.addEventListener("click", () => this.connect());
    this.section.querySelector("[data-do=copy]").addEventListener("click", () => this.#copy());
    const reader = this.section.querySelector("[data-reader]");
    reader.addEventListener("change", () => { this.terminal.options.screenReaderMode = reader.checked; });
  }

  connect() {
    this.#line?.close();
    this.#over = false;
    this.terminal.reset();
    this.#show("connecting");
    const { cols, rows } = this.terminal;
    const heard = {
      data: (bytes, taken) => line === this.#line && this.terminal.write(bytes, taken),
      said: (words) => line === this.#line && this.#said(words),
      refused: (why) => line === this.#line && this.#end("refused", { why }),
      closed: () => line === this.#line && !this.#over && this.#end("lost"),
    };
    const { job, line: address } = this.section.dataset;
    const line = new TaskLine(job, address, heard, { terminal: { columns: cols, rows, term: "xterm-256color" } });
    this.#line = line;
  }

  #said(words) {
    if (words.entered) this.#opened();
    if (words.exit !== undefined) this.#end("exited", { code: words.exit });
  }

  // The box may have another size than when it was asked for.
  #opened() {
    const { cols, rows } = this.terminal;
    this.#line.say({ resize: [cols, rows] });
    this.#show("open");
    this.terminal.focus();
  }

  #end(how, names) {
    this.#over = true;
    this.#show(how, names);
    this.section.classList.add("over");
    this.again.hidden = false;
    if (document.activeElement === this.terminal.textarea) this.again.focus();
  }

  #show(how, names) {
    this.words.tell(how, names);
    this.words.element.classList.toggle("lost", how === "lost" || how === "refused");
    this.section.classList.remove("over");
    this.again.hidden = true;
  }

  // Ctrl+Shift+V is the browser's own. Tab belongs to the shell, so there is another way out.
  #key(event) {
    if (event.ctrlKey && event.shiftKey && event.code === "KeyV") return false;
    if (event.ctrlKey && event.shiftKey && event.code === "KeyC") {
      event.preventDefault();
      if (event.type === "keydown") this.#copy();
      return false;
    }
    if (event.shiftKey && event.key === "F6") {
      if (event.type === "keydown") document.getElementById("terminal-task").focus();
      return false;
    }
    return true;
  }

  #copy() {
    const text = this.terminal.getSelection();
    if (text) copyText(text);
    this.terminal.focus();
  }
}

async function start() {
  const section = document.querySelector("[data-terminal]");
  if (!section) return;
  const lib = await bundled("terminal");
  if (!lib) return showOtherWays(section);
  allowTerminalStyles();
  new TerminalView(section, lib).start();
}

// Its scripts did not come: what gets one in without them is on the page, too.
function showOtherWays(section) {
  section.hidden = true;
  document.querySelector(".terminal-else").classList.remove("unscripted");
}

start();
