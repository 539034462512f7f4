// The form of a recurring job: its file in an editor, the name in it as a field, and the reader's own time zone.
import { bundled } from "./bundled.js";
import { plainEditor, richEditor } from "./job_editor.js";
import { nameIn, withName } from "./job_name.js";

const field = document.getElementById("text");
const name = document.getElementById("job-name");
const lib = await bundled("editor");
const editor = lib ? richEditor(lib, field, document.getElementById("editor"), typed, () => null) : plainEditor(field, showName);

offerZone();
offerCron();
name.addEventListener("input", () => {
  const text = withName(field.value, name.value);
  editor.setText(text);
  typed(text);
});
document.addEventListener("htmx:afterSettle", (event) => {
  if (event.target.id === "check") showProblems();
});
document.addEventListener("click", (event) => {
  const line = event.target.closest("#check [data-line]")?.dataset.line;
  if (line) editor.goToLine(Number(line));
});
showName();
showProblems();

// The text field is what the form sends, and what is checked as one types.
function typed(text) {
  field.value = text;
  field.dispatchEvent(new Event("input", { bubbles: true }));
  showName();
}

function showName() {
  const found = nameIn(field.value);
  document.getElementById("name-field").hidden = found === null;
  if (found !== null && document.activeElement !== name) name.value = found;
}

function showProblems() {
  const listed = [...document.querySelectorAll("#check [data-problem]")];
  editor.showProblems(listed.map((one) => ({ line: Number(one.dataset.problem), message: one.textContent.trim() })));
}

// Whoever goes on from a preset finds its cron text.
function offerCron() {
  const cron = document.getElementById("cron");
  let last = document.querySelector("[name=kind]:checked").dataset.cron;
  document.querySelector(".presets").addEventListener("change", (event) => {
    if (event.target.value === "custom" && !cron.value) cron.value = last;
    last = event.target.dataset.cron || last;
  });
}

function offerZone() {
  const button = document.getElementById("own-zone");
  const zone = document.getElementById("timezone");
  const own = Intl.DateTimeFormat().resolvedOptions().timeZone;
  if (!own) return;
  button.textContent = button.dataset.text.replace("{zone}", own);
  button.hidden = [zone.value, zone.placeholder].some((other) => plain(other) === plain(own));
  button.addEventListener("click", () => {
    zone.value = own;
    zone.dispatchEvent(new Event("change", { bubbles: true }));
    zone.focus();
    button.hidden = true;
  });
}

function plain(zone) {
  return zone.replace(/^Etc\//, "");
}
