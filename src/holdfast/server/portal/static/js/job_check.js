// Asks the server about the file while somebody types: one question at a time, and only the newest answer counts.
import { csrf } from "./htmx.js";

const PAUSE = 350; // milliseconds without a letter before we ask

export class JobCheck {
  // `read()` -> {text, group}, as they are then; `show(answer)`; `fail(kind)` with "unreachable" or "logged-out".
  constructor({ read, show, fail, busy }) {
    Object.assign(this, { read, show, fail, busy });
    this.timer = 0;
    this.running = false;
    this.wanted = false;
  }

  ask(pause = PAUSE) {
    this.wanted = true;
    this.busy(true);
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.#run(), pause);
  }

  async #run() {
    if (this.running || !this.wanted) return;
    this.running = true;
    this.wanted = false;
    const answer = await this.#fetch(this.read());
    this.running = false;
    if (this.wanted) return this.ask(0); // it is about a text that has changed since
    this.busy(false);
    if (typeof answer === "string") this.fail(answer);
    else this.show(answer);
  }

  async #fetch(fields) {
    try {
      const headers = { "X-CSRF-Token": csrf(), "HX-Request": "true", Accept: "application/json" };
      const response = await fetch("/jobs/new/check", { method: "POST", headers, body: new URLSearchParams(fields) });
      if (isLoggedOut(response)) return "logged-out";
      const isJson = response.headers.get("content-type")?.startsWith("application/json");
      return response.ok && isJson ? await response.json() : "unreachable";
    } catch {
      return "unreachable";
    }
  }
}

// Also when another tab logged in anew: this page's proof is then of no use.
function isLoggedOut(response) {
  return response.headers.has("HX-Redirect") || response.status === 403;
}

// What keeps a form from being sent: "logged-out", "unreachable" or "". What was typed is not lost to an error page then.
export async function whatHinders() {
  try {
    const response = await fetch("/jobs/new/choices", { headers: { "HX-Request": "true" } });
    return isLoggedOut(response) ? "logged-out" : "";
  } catch {
    return "unreachable";
  }
}

// -- showing an answer

const words = () => document.getElementById("words").dataset;

export class Verdict {
  constructor(card, goToLine) {
    this.card = card;
    this.title = card.querySelector("#verdict-title");
    this.question = this.title.textContent;
    card.addEventListener("click", (event) => {
      const line = event.target.closest("[data-line]");
      if (line) goToLine(Number(line.dataset.line));
    });
  }

  busy(on) {
    this.card.classList.toggle("busy", on);
    this.card.setAttribute("aria-busy", String(on));
  }

  show(answer) {
    this.card.className = `card verdict ${answer.verdict || "refused"}`;
    this.card.querySelector("[data-idle]").hidden = true;
    if (this.title.textContent !== answer.headline) this.title.textContent = answer.headline;
    fill(this.card.querySelector("[data-reasons]"), answer.reasons.map(item));
    const more = answer.more ? [item(words().more.replace("{count}", answer.more))] : [];
    fill(this.card.querySelector("[data-problems]"), [...answer.problems.map(problemItem), ...more]);
    fill(this.card.querySelector("[data-warnings]"), answer.warnings.map(item));
  }

  say(text) {
    this.show({ verdict: "unknown", headline: text, reasons: [], problems: [], warnings: [] });
  }
}

function fill(list, items) {
  list.replaceChildren(...items);
  list.hidden = !items.length;
}

function item(text) {
  const made = document.createElement("li");
  made.textContent = text;
  return made;
}

function problemItem(problem) {
  const made = document.createElement("li");
  if (problem.line) made.append(lineButton(problem.line), " ");
  if (problem.field) made.append(piece("code", problem.field), " ");
  made.append(sentence(problem.message));
  if (problem.hint) made.append(" ", Object.assign(sentence(problem.hint), { className: "hint help" }));
  return made;
}

function piece(name, text) {
  const made = document.createElement(name);
  made.textContent = text;
  if (name === "code") made.translate = false;
  return made;
}

/** A text in which commands stand between backticks, as code_spans.py shows it. */
function sentence(text) {
  const made = document.createElement("span");
  text.split(/`([^`\n]+)`/).forEach((part, at) => made.append(at % 2 ? piece("code", part) : part));
  return made;
}

function lineButton(line) {
  const button = Object.assign(document.createElement("button"), { type: "button", className: "at-line" });
  button.dataset.line = line;
  button.textContent = words().line.replace("{number}", line);
  return button;
}
