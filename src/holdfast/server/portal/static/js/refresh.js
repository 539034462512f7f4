// A piece of a page that is fetched again when jobs change: <div id=… data-refresh="/address">. It is left alone while
// somebody is just using it; with data-still it never changes.
import { connect, toLogin } from "./live.js";
import { Pace } from "./live_logic.js";
import { showTimes } from "./times.js";

const EVERY = 60000; // ms; the clock alone changes some pages, too
const LATER = 1000;
let last = ""; // as it came

const pace = new Pace(refresh);
connect("/live/jobs", () => pace.ask());
document.addEventListener("portal:refresh", () => pace.ask());
setInterval(() => document.hidden || pace.ask(), EVERY);

function piece() {
  return document.querySelector("[data-refresh]:not([data-still])");
}

async function refresh() {
  const old = piece();
  if (!old) return;
  const text = await bring(old.dataset.refresh);
  if (text === null || text === last || old !== piece()) return;
  if (inUse(old)) return void setTimeout(() => pace.ask(), LATER);
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
  return selects || document.querySelector("dialog[open]") || old.querySelector(":active, details[open]");
}

function put(old, text) {
  const focus = old.contains(document.activeElement) ? nameOf(document.activeElement) : "";
  const here = old.querySelector("tr.here")?.dataset.key;
  const found = document.createRange().createContextualFragment(text).firstElementChild;
  old.replaceWith(found);
  showTimes(found);
  if (here) [...found.querySelectorAll("tr")].find((row) => row.dataset.key === here)?.classList.add("here");
  if (focus) [...found.querySelectorAll("a, button, pre")].find((one) => nameOf(one) === focus)?.focus({ preventScroll: true });
}

function nameOf(element) {
  return [element.tagName, element.getAttribute("aria-label"), element.getAttribute("href"), element.textContent].join("\n");
}
