// A job's page that keeps up: when the job changes, the page is fetched again and merged into what is there.
import { connect } from "./live.js";
import { Pace } from "./live_logic.js";
import { fetchPart, showPart } from "./part.js";

const root = document.getElementById("job");
const STOPPING = "#job-state .stopping"; // once it is over, the message that it is being stopped is, too
const pace = new Pace(look, { least: 500 });

// A page that is gone says so itself, or that it is not ours to see any more.
async function look() {
  const html = await fetchPart(location.href, () => location.reload());
  if (html === null) return;
  const stopping = root.querySelector(STOPPING);
  showPart(root, html);
  if (stopping && !root.querySelector(STOPPING)) document.querySelector("#messages .notification.good")?.remove();
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
