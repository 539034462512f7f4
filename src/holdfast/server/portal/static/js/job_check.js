// Checks the job file on the server while the user types: one request at a time; only the newest result counts.
import { getCsrfToken } from "./htmx.js";

const DEBOUNCE_INTERVAL = 350; // ms without input before a check

export class JobChecker {
  // `getFields()` returns the current {text, group}; `onResult(result)`; `onFailure(kind)` with "unreachable" or "logged-out";
  // `onBusy(isBusy)`.
  constructor({ getFields, onResult, onFailure, onBusy }) {
    Object.assign(this, { getFields, onResult, onFailure, onBusy });
    this.timer = 0;
    this.running = false;
    this.requested = false;
  }

  request(pause = DEBOUNCE_INTERVAL) {
    this.requested = true;
    this.onBusy(true);
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.#runCheck(), pause);
  }

  async #runCheck() {
    if (this.running || !this.requested) return;
    this.running = true;
    this.requested = false;
    const result = await this.#fetchResult(this.getFields());
    this.running = false;
    if (this.requested) return this.request(0); // the text has changed since the request
    this.onBusy(false);
    if (typeof result === "string") this.onFailure(result);
    else this.onResult(result);
  }

  async #fetchResult(fields) {
    try {
      const headers = { "X-CSRF-Token": getCsrfToken(), "HX-Request": "true", Accept: "application/json" };
      const response = await fetch("/jobs/new/check", { method: "POST", headers, body: new URLSearchParams(fields) });
      if (isLoggedOut(response)) return "logged-out";
      const isJson = response.headers.get("content-type")?.startsWith("application/json");
      return response.ok && isJson ? await response.json() : "unreachable";
    } catch {
      return "unreachable";
    }
  }
}

// 403: another tab logged in again, so the CSRF token of this page is invalid.
function isLoggedOut(response) {
  return response.headers.has("HX-Redirect") || response.status === 403;
}

// Returns why the form cannot be submitted: "logged-out", "unreachable" or "". Submitting would replace the form by an error
// page and lose its text.
export async function checkConnection() {
  try {
    const response = await fetch("/jobs/new/choices", { headers: { "HX-Request": "true" } });
    return isLoggedOut(response) ? "logged-out" : "";
  } catch {
    return "unreachable";
  }
}

// -- showing a result

const texts = () => document.getElementById("texts").dataset;

export class VerdictCard {
  constructor(card, goToLine) {
    this.card = card;
    this.title = card.querySelector("#verdict-title");
    this.question = this.title.textContent;
    card.addEventListener("click", (event) => {
      const line = event.target.closest("[data-line]");
      if (line) goToLine(Number(line.dataset.line));
    });
  }

  setBusy(on) {
    this.card.classList.toggle("busy", on);
    this.card.setAttribute("aria-busy", String(on));
  }

  showResult(result) {
    this.card.className = `card verdict ${result.verdict || "refused"}`;
    this.card.querySelector("[data-idle]").hidden = true;
    if (this.title.textContent !== result.headline) this.title.textContent = result.headline;
    fillList(this.card.querySelector("[data-reasons]"), result.reasons.map(createItem));
    const more = result.more ? [createItem(texts().more.replace("{count}", result.more))] : [];
    fillList(this.card.querySelector("[data-problems]"), [...result.problems.map(createProblemItem), ...more]);
    fillList(this.card.querySelector("[data-warnings]"), result.warnings.map(createItem));
  }

  showMessage(text) {
    this.showResult({ verdict: "unknown", headline: text, reasons: [], problems: [], warnings: [] });
  }
}

function fillList(list, items) {
  list.replaceChildren(...items);
  list.hidden = !items.length;
}

function createItem(text) {
  const element = document.createElement("li");
  element.textContent = text;
  return element;
}

function createProblemItem(problem) {
  const element = document.createElement("li");
  if (problem.line) element.append(createLineButton(problem.line), " ");
  if (problem.field) element.append(createTextElement("code", problem.field), " ");
  element.append(createMessage(problem.message));
  if (problem.hint) element.append(" ", Object.assign(createMessage(problem.hint), { className: "hint help" }));
  return element;
}

function createTextElement(name, text) {
  const element = document.createElement(name);
  element.textContent = text;
  if (name === "code") element.translate = false;
  return element;
}

/** Return a span with the text; parts between backticks are code, like in code_spans.py. */
function createMessage(text) {
  const element = document.createElement("span");
  text.split(/`([^`\n]+)`/).forEach((part, at) => element.append(at % 2 ? createTextElement("code", part) : part));
  return element;
}

function createLineButton(line) {
  const button = Object.assign(document.createElement("button"), { type: "button", className: "at-line" });
  button.dataset.line = line;
  button.textContent = texts().line.replace("{number}", line);
  return button;
}
