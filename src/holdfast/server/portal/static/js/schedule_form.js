// The form of a schedule: the job file in an editor, its name as a field, and the user's time zone.
import { loadBundle } from "./bundles.js";
import { createPlainEditor, createRichEditor } from "./job_editor.js";
import { readName, writeName } from "./job_name.js";

const field = document.getElementById("text");
const name = document.getElementById("job-name");
const lib = await loadBundle("editor");
const editor = lib ? createRichEditor(lib, field, document.getElementById("editor"), onTyped, () => null) : createPlainEditor(field, showName);

setUpTimeZone();
setUpCron();
name.addEventListener("input", () => {
  const text = writeName(field.value, name.value);
  editor.setText(text);
  onTyped(text);
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

// The text field is submitted, and checked while the user types.
function onTyped(text) {
  field.value = text;
  field.dispatchEvent(new Event("input", { bubbles: true }));
  showName();
}

function showName() {
  const found = readName(field.value);
  document.getElementById("name-field").hidden = found === null;
  if (found !== null && document.activeElement !== name) name.value = found;
}

function showProblems() {
  const listed = [...document.querySelectorAll("#check [data-problem]")];
  editor.showProblems(listed.map((problem) => ({ line: Number(problem.dataset.problem), message: problem.textContent.trim() })));
}

// Copies the cron expression of the last preset when the user switches to a custom one.
function setUpCron() {
  const cron = document.getElementById("cron");
  let last = document.querySelector("[name=kind]:checked").dataset.cron;
  document.querySelector(".presets").addEventListener("change", (event) => {
    if (event.target.value === "custom" && !cron.value) cron.value = last;
    last = event.target.dataset.cron || last;
  });
}

function setUpTimeZone() {
  const button = document.getElementById("own-zone");
  const zone = document.getElementById("timezone");
  const own = Intl.DateTimeFormat().resolvedOptions().timeZone;
  if (!own) return;
  button.textContent = button.dataset.text.replace("{zone}", own);
  button.hidden = [zone.value, zone.placeholder].some((other) => normalizeZone(other) === normalizeZone(own));
  button.addEventListener("click", () => {
    zone.value = own;
    zone.dispatchEvent(new Event("change", { bubbles: true }));
    zone.focus();
    button.hidden = true;
  });
}

function normalizeZone(zone) {
  return zone.replace(/^Etc\//, "");
}
