// The form of a recurring job: the reader's own time zone at a click, and the name in the file as a field.
import { nameIn, withName } from "./job_name.js";

offerZone();
tieName();

function offerZone() {
  const button = document.getElementById("own-zone");
  const field = document.getElementById("timezone");
  const own = Intl.DateTimeFormat().resolvedOptions().timeZone;
  if (!button || !own) return;
  button.textContent = button.dataset.text.replace("{zone}", own);
  button.hidden = [field.value, field.placeholder].some((zone) => plain(zone) === plain(own));
  button.addEventListener("click", () => {
    field.value = own;
    field.dispatchEvent(new Event("change", { bubbles: true }));
    field.focus();
    button.hidden = true;
  });
}

function plain(zone) {
  return zone.replace(/^Etc\//, "");
}

function tieName() {
  const text = document.getElementById("text");
  const name = document.getElementById("job-name");
  const show = () => {
    const found = nameIn(text.value);
    document.getElementById("name-field").hidden = found === null;
    if (found !== null && document.activeElement !== name) name.value = found;
  };
  text.addEventListener("input", show);
  name.addEventListener("input", () => {
    text.value = withName(text.value, name.value);
    text.dispatchEvent(new Event("input", { bubbles: true }));
  });
  show();
}
