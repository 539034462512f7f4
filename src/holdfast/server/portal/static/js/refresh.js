// A piece of a page that is fetched again when jobs change: <div id=… data-refresh="/address">. It is left alone while
// somebody is just using it; with data-still it never changes.
import { connect, toLogin } from "./live.js";
import { Pace } from "./live_logic.js";
import { showTimes } from "./times.js";

const LEAST = 5000; // ms between two looks, however much happens
const EVERY = 60000; // the clock alone changes some pages, too
const LATER = 1000;
let last = ""; // as it came

const pace = new Pace(refresh, { least: LEAST });
connect("/live/jobs", () => pace.ask());
document.addEventListener("portal:refresh", () => pace.ask());
setInterval(() => document.hidden || pace.ask(), EVERY);

function piece() {
  return document.querySelector("[data-refresh]:not([data-still])");
}

async function refresh() {
  const old = piece();
  if (!old) return;
  const text = inUse(old) ? null : await bring(old.dataset.refresh);
  if (inUse(old)) return void setTimeout(() => pace.ask(), LATER);
  if (text === null || text === last || old !== piece()) return;
  last = text;
  put(old, text);
}

// Null where there is nothing new to show.
async function bring(address) {
  try {
    const answer = await fetch(address, { headers: { "HX-Request": "true" } });
    if (answer.headers.get("HX-Redirect")) toLogin();
    return answer.status === 200 ? await answer.text() : null;
  } catch {
    return null; // the line tells that nobody answers
  }
}

function inUse(old) {
  const selection = getSelection();
  const selects = selection && !selection.isCollapsed && old.contains(selection.anchorNode);
  return selects || document.querySelector("dialog[open]") || old.querySelector(":active");
}

function put(old, text) {
  const focus = old.contains(document.activeElement) ? nameOf(document.activeElement) : "";
  const here = old.querySelector("tr.here")?.dataset.key;
  const open = new Set([...old.querySelectorAll("details[open]")].map((one) => one.dataset.key));
  const found = document.createRange().createContextualFragment(text).firstElementChild;
  old.replaceWith(found);
  showTimes(found);
  if (here) [...found.querySelectorAll("tr")].find((row) => row.dataset.key === here)?.classList.add("here");
  for (const one of found.querySelectorAll("details")) one.open = open.has(one.dataset.key);
  if (focus) [...found.querySelectorAll("a, button, pre, summary")].find((one) => nameOf(one) === focus)?.focus({ preventScroll: true });
}

function nameOf(element) {
  return [element.tagName, element.getAttribute("aria-label"), element.getAttribute("href"), element.textContent].join("\n");
}
