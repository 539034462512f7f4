// Shows times in the user's time zone and language, and running durations. One timer serves the whole page.

const language = document.documentElement.lang;
const relativeFormat = new Intl.RelativeTimeFormat(language, { numeric: "auto" });
const exactFormat = new Intl.DateTimeFormat(language, { dateStyle: "medium", timeStyle: "medium" });
const clockFormat = new Intl.DateTimeFormat(language, { dateStyle: "short", timeStyle: "medium" });
// Unit, its seconds, and the minimum count for future times: the remaining time needs more precision.
const AGE_UNITS = [["day", 86400, 1], ["hour", 3600, 3], ["minute", 60, 3]];

export function startTimes(root) {
  showTimes(root);
  setInterval(() => {
    if (document.hidden) return;
    updateDurations(document);
    updateAges(document);
  }, 1000);
}

export function showTimes(root) {
  for (const element of root.querySelectorAll("time[data-show]")) {
    element.title = exactFormat.format(new Date(element.dateTime));
    if (element.dataset.show !== "ago") element.textContent = clockFormat.format(new Date(element.dateTime));
  }
  updateAges(root);
  updateDurations(root);
}

function updateAges(root) {
  for (const element of root.querySelectorAll('time[data-show="ago"]')) {
    const text = formatAge((new Date(element.dateTime) - Date.now()) / 1000);
    if (element.textContent !== text) element.textContent = text;
  }
}

function updateDurations(root) {
  for (const element of root.querySelectorAll("[data-since]")) {
    const text = formatDuration((Date.now() - new Date(element.dataset.since)) / 1000);
    if (element.textContent !== text) element.textContent = text;
  }
}

function formatAge(seconds) {
  for (const [unit, size, minCount] of AGE_UNITS) {
    if (seconds <= -size || seconds >= minCount * size) return relativeFormat.format(Math.round(seconds / size), unit);
  }
  return relativeFormat.format(roundSeconds(Math.round(seconds)), "second");
}

// Seconds below 10 one by one, then in tens: fewer visible changes on pages with many ages.
function roundSeconds(seconds) {
  return Math.abs(seconds) < 10 ? seconds : Math.trunc(seconds / 10) * 10;
}

// Returns 1d 02:03:04, the same format as in rendering.py.
export function formatDuration(length) {
  const seconds = Math.max(0, Math.floor(length));
  const padTwo = (number) => String(number).padStart(2, "0");
  const rest = seconds % 86400;
  const text = `${padTwo(Math.floor(rest / 3600))}:${padTwo(Math.floor((rest % 3600) / 60))}:${padTwo(rest % 60)}`;
  return seconds >= 86400 ? `${Math.floor(seconds / 86400)}d ${text}` : text;
}
