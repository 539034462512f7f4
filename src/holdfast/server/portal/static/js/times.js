// Times in the reader's own zone and language, and spans that count on. One timer serves the whole page.

const language = document.documentElement.lang;
const relative = new Intl.RelativeTimeFormat(language, { numeric: "auto" });
const exact = new Intl.DateTimeFormat(language, { dateStyle: "medium", timeStyle: "medium" });
const clock = new Intl.DateTimeFormat(language, { dateStyle: "short", timeStyle: "medium" });
// Unit, its seconds, and from how many on it is told of what is to come: the time that is left matters more closely.
const STEPS = [["day", 86400, 1], ["hour", 3600, 3], ["minute", 60, 3]];

export function startTimes(root) {
  showTimes(root);
  setInterval(() => {
    if (document.hidden) return;
    countOn(document);
    showAges(document);
  }, 1000);
}

export function showTimes(root) {
  for (const element of root.querySelectorAll("time[data-show]")) {
    element.title = exact.format(new Date(element.dateTime));
    if (element.dataset.show !== "ago") element.textContent = clock.format(new Date(element.dateTime));
  }
  showAges(root);
  countOn(root);
}

function showAges(root) {
  for (const element of root.querySelectorAll('time[data-show="ago"]')) {
    const text = age((new Date(element.dateTime) - Date.now()) / 1000);
    if (element.textContent !== text) element.textContent = text;
  }
}

function countOn(root) {
  for (const element of root.querySelectorAll("[data-since]")) {
    const text = span((Date.now() - new Date(element.dataset.since)) / 1000);
    if (element.textContent !== text) element.textContent = text;
  }
}

function age(seconds) {
  for (const [unit, size, least] of STEPS) {
    if (seconds <= -size || seconds >= least * size) return relative.format(Math.round(seconds / size), unit);
  }
  return relative.format(calm(Math.round(seconds)), "second");
}

// The first seconds one by one, then in tens: a page full of ages need not tick.
function calm(seconds) {
  return Math.abs(seconds) < 10 ? seconds : Math.trunc(seconds / 10) * 10;
}

// 1d 02:03:04, as rendering.py writes it, too.
export function span(length) {
  const seconds = Math.max(0, Math.floor(length));
  const two = (number) => String(number).padStart(2, "0");
  const rest = seconds % 86400;
  const text = `${two(Math.floor(rest / 3600))}:${two(Math.floor((rest % 3600) / 60))}:${two(rest % 60)}`;
  return seconds >= 86400 ? `${Math.floor(seconds / 86400)}d ${text}` : text;
}
