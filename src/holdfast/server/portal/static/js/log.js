// Starts the log views of a page (log_view.js) and stores the user's display preferences.
import { LogView } from "./log_view.js";

const PREFERENCES = { wrap: true, times: false };

for (const section of document.querySelectorAll("[data-log]")) startLog(section);

function startLog(section) {
  submitOnChange(section);
  if (section.dataset.empty !== undefined) return;
  const view = new LogView(section);
  section.classList.add("scripted");
  for (const element of section.querySelectorAll("[data-with-script]")) element.hidden = false;
  for (const name of Object.keys(PREFERENCES)) bindPreference(section, view, name);
  view.start();
}

// Submits the choice of task, attempt and try on change. Another task or attempt has its own tries.
function submitOnChange(section) {
  const form = section.querySelector("[data-choices]");
  if (!form) return;
  form.querySelector("[data-without-script]").hidden = form.elements.task.tagName === "SELECT";
  form.addEventListener("change", (event) => {
    const order = ["task", "attempt", "try"];
    for (const name of order.slice(order.indexOf(event.target.name) + 1)) if (form.elements[name]) form.elements[name].disabled = true;
    form.requestSubmit();
  });
}

function bindPreference(section, view, name) {
  const box = section.querySelector(`[data-prefer=${name}]`);
  box.checked = loadPreference(name);
  const apply = () => applyPreference(view, name, box.checked);
  box.addEventListener("change", () => {
    savePreference(name, box.checked);
    apply();
  });
  apply();
}

function applyPreference(view, name, on) {
  view.window.preserveScroll(() => view.scroller.classList.toggle(name, on));
  if (name === "times") view.times.setEnabled(on);
}

function loadPreference(name) {
  try {
    const stored = localStorage.getItem(`log.${name}`);
    return stored === null ? PREFERENCES[name] : stored === "yes";
  } catch {
    return PREFERENCES[name]; // storage is disabled
  }
}

function savePreference(name, on) {
  try {
    localStorage.setItem(`log.${name}`, on ? "yes" : "no");
  } catch {
    // Storage is disabled: the preference lasts until the page is closed.
  }
}
