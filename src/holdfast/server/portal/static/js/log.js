// Makes the log view of a page live (log_view.js), and keeps how somebody likes to read logs.
import { LogView } from "./log_view.js";

const PREFERENCES = { wrap: true, times: false };

for (const section of document.querySelectorAll("[data-log]")) start(section);

function start(section) {
  sendChoices(section);
  if (section.dataset.nothing !== undefined) return;
  const view = new LogView(section);
  section.classList.add("scripted");
  for (const element of section.querySelectorAll("[data-with-script]")) element.hidden = false;
  for (const name of Object.keys(PREFERENCES)) offer(section, view, name);
  view.begin();
}

// Task, attempt and try: shown as soon as chosen. Another attempt has tries of its own.
function sendChoices(section) {
  const form = section.querySelector("[data-choices]");
  if (!form) return;
  form.querySelector("[data-without-script]").hidden = form.elements.task.tagName === "SELECT";
  form.addEventListener("change", (event) => {
    const order = ["task", "attempt", "try"];
    for (const name of order.slice(order.indexOf(event.target.name) + 1)) if (form.elements[name]) form.elements[name].disabled = true;
    form.requestSubmit();
  });
}

function offer(section, view, name) {
  const box = section.querySelector(`[data-prefer=${name}]`);
  box.checked = recall(name);
  const use = () => prefer(view, name, box.checked);
  box.addEventListener("change", () => {
    keep(name, box.checked);
    use();
  });
  use();
}

function prefer(view, name, on) {
  view.window.keepingPlace(() => view.scroller.classList.toggle(name, on));
  if (name === "times") view.times.switch(on);
}

function recall(name) {
  try {
    const kept = localStorage.getItem(`log.${name}`);
    return kept === null ? PREFERENCES[name] : kept === "yes";
  } catch {
    return PREFERENCES[name]; // a browser may keep nothing
  }
}

function keep(name, on) {
  try {
    localStorage.setItem(`log.${name}`, on ? "yes" : "no");
  } catch {
    // It is used until the page is left.
  }
}
