// A job of the reader's own calls for them: it is held, or a debugger in it waits. Told once, above whatever page they
// are on; the page of that job shows it anyway.

const KEPT = "calls.told";
const MOST = 100;
const JUST_CAME = 10_000; // ms in which somebody who was on the job's page need not be told of it
let told = recall();

export function showCalls(jobs) {
  for (const job of jobs) show(job).catch(() => {}); // the next change of it tells again
}

async function show(job) {
  const answer = await fetch(`/jobs/${job}/calls`, { headers: { "HX-Request": "true" } });
  if (answer.status !== 200) return;
  const fresh = document.createElement("template");
  fresh.innerHTML = await answer.text();
  for (const call of fresh.content.querySelectorAll("[data-call]")) {
    const key = call.dataset.call;
    if (told.includes(key)) continue;
    keep(key);
    if (!isKnown(job)) tell(call);
  }
}

function isKnown(job) {
  const page = `/jobs/${job}`;
  const came = document.referrer && new URL(document.referrer).pathname;
  return location.pathname.startsWith(page) || (came && came.startsWith(page) && performance.now() < JUST_CAME);
}

function tell(call) {
  const messages = document.getElementById("messages");
  messages.classList.add("told");
  messages.append(call);
}

function recall() {
  try {
    const kept = JSON.parse(localStorage.getItem(KEPT) ?? "[]");
    return Array.isArray(kept) ? kept : [];
  } catch {
    return []; // a browser may keep nothing: then each page tells once
  }
}

function keep(key) {
  told = [...told, key].slice(-MOST);
  try {
    localStorage.setItem(KEPT, JSON.stringify(told));
  } catch {
    // It is known until the page is left.
  }
}
