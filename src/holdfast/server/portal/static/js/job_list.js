// Updates the job list without disturbing the user's reading, selection and typing.
import { showMessage } from "./dialogs.js";
import { openLiveSocket, redirectToLogin } from "./live.js";
import { Throttle } from "./live_logic.js";
import { fetchPart } from "./part.js";
import { mergeRows } from "./table_rows.js";
import { showTimes } from "./times.js";
import { startSelection, showSelection } from "./selection.js";

const PENDING_ROWS = "td.state .state-pending"; // rows whose reason may change while their state does not
const throttle = new Throttle(refreshList);

function startJobList() {
  openLiveSocket("/live/jobs", handleMessage);
  startSelection(document);
  document.addEventListener("portal:refresh", () => throttle.request());
  document.addEventListener("click", (event) => {
    if (event.target.closest("[data-reload]")) throttle.request();
  });
  document.addEventListener("submit", (event) => {
    if (!event.target.matches("#stop-one, #stop-many")) return;
    event.preventDefault();
    stopJobs(event.target, event.submitter);
  });
  startFilters();
}

// Submitted by script, so that the list keeps its position; the response contains the result.
async function stopJobs(form, button) {
  const fields = new URLSearchParams(new FormData(form, button));
  const response = await fetch(form.action, { method: "POST", body: fields, headers: { "HX-Request": "true" } });
  if (response.headers.has("HX-Redirect")) return redirectToLogin();
  showMessage(await response.text());
  throttle.request();
}

// On the newest page any change may matter; on older pages only changes of listed jobs do.
function handleMessage(message) {
  const known = (message.jobs ?? []).some((id) => document.getElementById(id));
  const newest = !new URLSearchParams(location.search).has("cursor");
  const changed = message.all || known || (newest && message.jobs?.length);
  if (changed || (message.waiting && document.querySelector(PENDING_ROWS))) throttle.request();
}

async function refreshList() {
  const address = location.href;
  const html = await fetchPart(address);
  if (html !== null && location.href === address) updateList(html);
}

const TABLE_BODY = /(<tbody data-rows>)([^]*)(<\/tbody>)/;

// The rows are removed before parsing: most of them have not changed.
function updateList(html) {
  const fresh = document.createElement("template");
  fresh.innerHTML = html.replace(TABLE_BODY, "$1$3");
  const old = document.getElementById("results");
  const next = fresh.content.getElementById("results");
  const rows = old.querySelector("[data-rows]");
  const found = html.match(TABLE_BODY);
  if (rows && found) {
    mergeRows(rows, found[2]);
    rows.closest("table").className = next.querySelector("table").className;
    replacePager(old, next);
  } else if (rows || found) {
    replaceResults(old, html);
  }
  showSelection();
}

function replaceResults(old, html) {
  old.outerHTML = html;
  showTimes(document.getElementById("results"));
  document.getElementById("filters").classList.remove("no-jobs");
}

function replacePager(old, next) {
  const [before, after] = [old, next].map((part) => part.querySelector(".pager"));
  if (before?.innerHTML === after?.innerHTML) return;
  before?.remove();
  if (after) old.append(after);
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

startJobList();
