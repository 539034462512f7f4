// Refreshes a part of a page when jobs change: <div id=… data-refresh="/address">. Not while the user interacts with it, and
// never with data-no-refresh. Also refreshes regularly; data-refresh-interval sets the number of seconds. Elements that must
// be recognized, such as rows and <details>, need an id.
import { openLiveSocket } from "./live.js";
import { Throttle } from "./live_logic.js";
import { fetchPart, showPart } from "./part.js";

const MIN_REFRESH_INTERVAL = 5000; // ms
const REFRESH_INTERVAL = 60; // seconds
const RETRY_INTERVAL = 1000; // ms; while the part is in use

const throttle = new Throttle(refreshPart, { minInterval: MIN_REFRESH_INTERVAL });
openLiveSocket("/live/jobs", () => throttle.request());
document.addEventListener("portal:refresh", () => throttle.request());
setInterval(() => document.hidden || throttle.request(), Number(findPart()?.dataset.refreshInterval ?? REFRESH_INTERVAL) * 1000);

function findPart() {
  return document.querySelector("[data-refresh]:not([data-no-refresh])");
}

async function refreshPart() {
  const root = findPart();
  if (!root) return;
  const html = isInUse(root) ? null : await fetchPart(root.dataset.refresh);
  if (isInUse(root)) return void setTimeout(() => throttle.request(), RETRY_INTERVAL);
  if (html !== null && root === findPart()) showPart(root, html);
}

function isInUse(root) {
  const selection = getSelection();
  const selects = selection && !selection.isCollapsed && root.contains(selection.anchorNode);
  return selects || document.querySelector("dialog[open]") || root.querySelector(":active");
}
