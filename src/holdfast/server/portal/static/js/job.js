// A job's page that keeps up: when the job changes, the page is fetched again and merged into what is there.
import { connect, toLogin } from "./live.js";
import { Pace } from "./live_logic.js";
import { mergeInto } from "./merge.js";
import { showTimes } from "./times.js";

const root = document.getElementById("job");
const pace = new Pace(look, { least: 500 });

async function look() {
  const text = await bring();
  if (text === null) return;
  const fresh = document.createElement("template");
  fresh.innerHTML = text;
  mergeInto(root, fresh.content);
  showTimes(root);
}

// Null where there is nothing to show.
async function bring() {
  try {
    const answer = await fetch(location.href, { headers: { "HX-Request": "true" } });
    if (answer.headers.get("HX-Redirect")) toLogin();
    if (answer.status === 404) location.reload(); // it says that the job is gone, or not ours to see any more
    return answer.status === 200 ? await answer.text() : null;
  } catch {
    return null; // the line tells that nobody answers, and what changed meanwhile once somebody does
  }
}

// Why jobs wait changes with every other job; that is of interest only while this one does.
function hear(message) {
  if (message.all || message.jobs?.length || root.querySelector("[data-waits]")) pace.ask();
}

function start() {
  connect(`/live/jobs?job=${encodeURIComponent(root.dataset.job)}`, hear);
  document.addEventListener("portal:refresh", () => pace.ask());
  root.addEventListener("click", (event) => {
    if (!event.target.closest("[data-look]") || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    pace.ask();
  });
}

if (root) start();
