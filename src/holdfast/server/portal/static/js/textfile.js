// Loads a form's text area from a file: chosen, or dropped onto it. Without scripts, users paste the text.
const area = document.querySelector(".form textarea");
const picker = document.createElement("input");
picker.type = "file";
picker.accept = ".csv,.txt,text/csv,text/plain";
picker.setAttribute("aria-label", area.labels[0].textContent.trim());
picker.addEventListener("change", () => loadFile(picker.files[0]));
area.after(picker);
area.addEventListener("dragover", (event) => event.preventDefault());
area.addEventListener("drop", (event) => {
  if (!event.dataTransfer.files.length) return;
  event.preventDefault();
  loadFile(event.dataTransfer.files[0]);
});

async function loadFile(file) {
  if (file) area.value = await file.text();
}
