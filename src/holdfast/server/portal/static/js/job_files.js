// Job files from and to this computer: a picker, a drop anywhere on the page, and a copy to keep.

const words = () => document.getElementById("words").dataset;

export function startFiles({ most, take, fail, text }) {
  const picker = document.getElementById("job-file");
  document.querySelector("[data-do=open-file]").addEventListener("click", () => picker.click());
  picker.addEventListener("change", () => {
    read(picker.files[0], most, take, fail);
    picker.value = "";
  });
  document.querySelector("[data-do=save-file]").addEventListener("click", () => save(text()));
  startDropping(most, take, fail);
}

function startDropping(most, take, fail) {
  const zone = document.getElementById("drop-zone");
  const hasFile = (event) => event.dataTransfer?.types.includes("Files");
  document.addEventListener("dragenter", (event) => {
    if (hasFile(event)) zone.hidden = false;
  });
  document.addEventListener("dragover", (event) => {
    if (hasFile(event)) event.preventDefault();
  });
  document.addEventListener("dragleave", (event) => {
    if (event.relatedTarget === null) zone.hidden = true;
  });
  document.addEventListener("drop", (event) => {
    zone.hidden = true;
    if (!hasFile(event)) return;
    event.preventDefault();
    event.stopPropagation();
    read(event.dataTransfer.files[0], most, take, fail);
  }, true);
}

async function read(file, most, take, fail) {
  if (!file) return;
  if (file.size > most) return fail(words().tooLarge);
  try {
    take(new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer()).replace(/\r\n?/g, "\n"));
  } catch {
    fail(words().notText);
  }
}

function save({ text, name, kind }) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "text/plain" }));
  link.download = `${name.replace(/[^\w.-]+/g, "-") || "job"}.${kind}`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
