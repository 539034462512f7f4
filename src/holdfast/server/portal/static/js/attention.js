// Notifications about the user's own jobs that need attention: a job is on hold, or a debugger in it waits. Each is
// shown once, on whichever page is open; the page of the job itself shows it anyway.

const STORAGE_KEY = "attention.shown";
const MAX_SHOWN_KEYS = 100;
const JOB_PAGE_TIMEOUT = 10_000; // ms after leaving the page of a job during which its notifications are not shown
let shownKeys = loadShownKeys();

export function showAttention(jobs) {
  for (const job of jobs) fetchNotifications(job).catch(() => {}); // the next change of the job tries again
}

async function fetchNotifications(job) {
  const response = await fetch(`/jobs/${job}/attention`, { headers: { "HX-Request": "true" } });
  if (response.status !== 200) return;
  const fresh = document.createElement("template");
  fresh.innerHTML = await response.text();
  for (const notification of fresh.content.querySelectorAll("[data-attention]")) {
    const key = notification.dataset.attention;
    if (shownKeys.includes(key)) continue;
    recordShownKey(key);
    if (!isOnJobPage(job)) appendNotification(notification);
  }
}

// Also true shortly after the user came from the page of the job.
function isOnJobPage(job) {
  const page = `/jobs/${job}`;
  const referrer = document.referrer && new URL(document.referrer).pathname;
  return location.pathname.startsWith(page) || (referrer && referrer.startsWith(page) && performance.now() < JOB_PAGE_TIMEOUT);
}

function appendNotification(notification) {
  const messages = document.getElementById("messages");
  messages.classList.add("sticky");
  messages.append(notification);
}

function loadShownKeys() {
  try {
    const stored = JSON.parse(localStorage.getItem(STORAGE_KEY) ?? "[]");
    return Array.isArray(stored) ? stored : [];
  } catch {
    return []; // storage is disabled: each page shows a notification once
  }
}

function recordShownKey(key) {
  shownKeys = [...shownKeys, key].slice(-MAX_SHOWN_KEYS);
  try {
    localStorage.setItem(STORAGE_KEY, JSON.stringify(shownKeys));
  } catch {
    // Storage is disabled: the key is remembered until the page is closed.
  }
}
