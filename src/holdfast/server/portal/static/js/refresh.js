// A piece of a page that is fetched again when jobs change: <div id=… data-refresh="/address">. It is left alone while
// somebody is just using it; with data-still it never changes. The clock alone changes some pages, too: data-every says
// after how many seconds. Give an id to what must be known again, such as rows and <details>.
import { connect } from "./live.js";
import { Pace } from "./live_logic.js";
import { fetchPart, showPart } from "./part.js";

const LEAST = 5000; // ms between two looks, however much happens
const EVERY = 60; // seconds
const LATER = 1000;

const pace = new Pace(refresh, { least: LEAST });
connect("/live/jobs", () => pace.ask());
document.addEventListener("portal:refresh", () => pace.ask());
setInterval(() => document.hidden || pace.ask(), Number(piece()?.dataset.every ?? EVERY) * 1000);

function piece() {
  return document.querySelector("[data-refresh]:not([data-still])");
}

async function refresh() {
  const root = piece();
  if (!root) return;
  const html = inUse(root) ? null : await fetchPart(root.dataset.refresh);
  if (inUse(root)) return void setTimeout(() => pace.ask(), LATER);
  if (html !== null && root === piece()) showPart(root, html);
}

function inUse(root) {
  const selection = getSelection();
  const selects = selection && !selection.isCollapsed && root.contains(selection.anchorNode);
  return selects || document.querySelector("dialog[open]") || root.querySelector(":active");
}
