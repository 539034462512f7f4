// Updates the page of a job: on each change of the job, fetches the page again and merges it into the current one.
import { openLiveSocket } from "./live.js";
import { Throttle } from "./live_logic.js";
import { fetchPart, showPart } from "./part.js";

const root = document.getElementById("job");
const STOPPING = "#job-state .stopping"; // when this disappears, the message about stopping is removed, too
const throttle = new Throttle(refreshJob, { minInterval: 500 });

// A reload of a page that is gone shows the reason.
async function refreshJob() {
  const html = await fetchPart(location.href, () => location.reload());
  if (html === null) return;
  const stopping = root.querySelector(STOPPING);
  showPart(root, html);
  if (stopping && !root.querySelector(STOPPING)) document.querySelector("#messages .notification.good")?.remove();
}

// The reasons for waiting change with other jobs; they only matter while this job waits.
function handleMessage(message) {
  if (message.all || message.jobs?.length || root.querySelector("[data-waits]")) throttle.request();
}

function startJobPage() {
  openLiveSocket(`/live/jobs?job=${encodeURIComponent(root.dataset.job)}`, handleMessage);
  document.addEventListener("portal:refresh", () => throttle.request());
  root.addEventListener("click", (event) => {
    if (!event.target.closest("[data-reload]") || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    throttle.request();
  });
}

if (root) startJobPage();
