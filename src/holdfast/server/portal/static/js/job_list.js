// The job list, alive: rows follow their jobs, and whoever reads, selects or types is not disturbed.
import { say } from "./dialogs.js";
import { connect, toLogin } from "./live.js";
import { Pace } from "./live_logic.js";
import { fetchPart } from "./part.js";
import { mergeRows } from "./rows.js";
import { showTimes } from "./times.js";
import { startSelection, showSelection } from "./selection.js";

const WAITING = "td.state .state-pending"; // rows whose reason may change though their state does not
const pace = new Pace(lookAgain);

function start() {
  connect("/live/jobs", hear);
  startSelection(document);
  document.addEventListener("portal:refresh", () => pace.ask());
  document.addEventListener("click", (event) => {
    if (event.target.closest("[data-look]")) pace.ask();
  });
  document.addEventListener("submit", (event) => {
    if (!event.target.matches("#stop-one, #stop-many")) return;
    event.preventDefault();
    stop(event.target, event.submitter);
  });
  startFilters();
}

// Sent from here, so that the list stays where it is; the answer says what came of it.
async function stop(form, button) {
  const fields = new URLSearchParams(new FormData(form, button));
  const answer = await fetch(form.action, { method: "POST", body: fields, headers: { "HX-Request": "true" } });
  if (answer.headers.has("HX-Redirect")) return toLogin();
  say(await answer.text());
  pace.ask();
}

// Anything that changed may belong on the newest page; on older ones only what is there already matters.
function hear(message) {
  const known = (message.jobs ?? []).some((id) => document.getElementById(id));
  const newest = !new URLSearchParams(location.search).has("cursor");
  const changed = message.all || known || (newest && message.jobs?.length);
  if (changed || (message.waiting && document.querySelector(WAITING))) pace.ask();
}

async function lookAgain() {
  const address = location.href;
  const html = await fetchPart(address);
  if (html !== null && location.href === address) update(html);
}

const ROWS = /(<tbody data-rows>)([^]*)(<\/tbody>)/;

// The rows are left out of what is parsed: most of them are there already.
function update(html) {
  const fresh = document.createElement("template");
  fresh.innerHTML = html.replace(ROWS, "$1$3");
  const old = document.getElementById("results");
  const next = fresh.content.getElementById("results");
  const rows = old.querySelector("[data-rows]");
  const found = html.match(ROWS);
  if (rows && found) {
    mergeRows(rows, found[2]);
    rows.closest("table").className = next.querySelector("table").className;
    replacePager(old, next);
  } else if (rows || found) {
    replaceAll(old, html);
  }
  showSelection();
}

function replaceAll(old, html) {
  old.outerHTML = html;
  showTimes(document.getElementById("results"));
  document.getElementById("filters").classList.remove("later");
}

function replacePager(old, next) {
  const [was, is] = [old, next].map((part) => part.querySelector(".pager"));
  if (was?.innerHTML === is?.innerHTML) return;
  was?.remove();
  if (is) old.append(is);
}

function startFilters() {
  document.addEventListener("htmx:configRequest", (event) => {
    if (event.detail.triggeringEvent?.type === "input") event.detail.headers["X-Typed"] = "yes";
  });
  document.addEventListener("htmx:afterSwap", (event) => {
    if (event.detail.target.id === "results") showSelection();
  });
  document.addEventListener("change", (event) => {
    const pick = event.target.closest("[data-pick]");
    if (pick) showPicked(pick);
  });
}

function showPicked(pick) {
  const value = pick.querySelector(".pick-value");
  const chosen = [...pick.querySelectorAll("input:checked")].map((input) => input.value);
  value.textContent = chosen.join(", ") || value.dataset.all;
}

start();
