// Loads job files from this computer (file picker, or drop anywhere on the page) and saves them to it.

const texts = () => document.getElementById("texts").dataset;

export function startFiles({ maxSize, onText, onError, getFile }) {
  const picker = document.getElementById("job-file");
  document.querySelector("[data-do=open-file]").addEventListener("click", () => picker.click());
  picker.addEventListener("change", () => {
    readFile(picker.files[0], maxSize, onText, onError);
    picker.value = "";
  });
  document.querySelector("[data-do=save-file]").addEventListener("click", () => saveFile(getFile()));
  startDropping(maxSize, onText, onError);
}

function startDropping(maxSize, onText, onError) {
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
    readFile(event.dataTransfer.files[0], maxSize, onText, onError);
  }, true);
}

async function readFile(file, maxSize, onText, onError) {
  if (!file) return;
  if (file.size > maxSize) return onError(texts().tooLarge);
  try {
    onText(new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer()).replace(/\r\n?/g, "\n"));
  } catch {
    onError(texts().notText);
  }
}

function saveFile({ text, name, kind }) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "text/plain" }));
  link.download = `${name.replace(/[^\w.-]+/g, "-") || "job"}.${kind}`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
