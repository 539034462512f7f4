// A form's long text can come from a file: chosen, or dropped onto it. Without scripts it is pasted.
const area = document.querySelector(".form textarea");
const picker = document.createElement("input");
picker.type = "file";
picker.accept = ".csv,.txt,text/csv,text/plain";
picker.setAttribute("aria-label", area.labels[0].textContent.trim());
picker.addEventListener("change", () => read(picker.files[0]));
area.after(picker);
area.addEventListener("dragover", (event) => event.preventDefault());
area.addEventListener("drop", (event) => {
  if (!event.dataTransfer.files.length) return;
  event.preventDefault();
  read(event.dataTransfer.files[0]);
});

async function read(file) {
  if (file) area.value = await file.text();
}
