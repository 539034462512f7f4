// Uploads chosen or dropped files to a group's folder, one after the other, with their progress.
import { askConfirmation } from "./dialogs.js";
import { uploadFile } from "./upload.js";

const drop = document.getElementById("drop");
const list = drop.querySelector(".uploads");
const queue = [];
let busy = false;
let failed = false;
drop.hidden = false;

document.getElementById("files").addEventListener("change", (event) => {
  queueFiles([...event.target.files]);
  event.target.value = "";
});
for (const [kind, over] of [["dragenter", true], ["dragover", true], ["dragleave", false], ["drop", false]]) {
  drop.addEventListener(kind, (event) => {
    event.preventDefault();
    drop.classList.toggle("over", over);
  });
}
drop.addEventListener("drop", (event) => queueFiles([...event.dataTransfer.files]));

async function queueFiles(files) {
  for (const file of files) {
    const row = createRow(file);
    if (file.size > Number(drop.dataset.maxSize)) showStatus(row, drop.dataset.tooLarge, true);
    else if (fileExists(file.name) && !(await askConfirmation(`${file.name}: ${drop.dataset.replace}`))) showStatus(row, drop.dataset.stopped);
    else queue.push([file, row]);
  }
  if (!busy) uploadQueue();
}

/** Upload one file at a time: the server limits the uploads of a user. */
async function uploadQueue() {
  busy = true;
  while (queue.length) await uploadOne(...queue.shift());
  busy = false;
  if (!failed && list.childElementCount) location.reload();
}

async function uploadOne(file, row) {
  const bar = row.querySelector("progress");
  const upload = uploadFile("PUT", drop.dataset.to + encodeURIComponent(file.name), file, {
    lostMessage: drop.dataset.lost,
    onProgress(part) {
      bar.value = part;
      showStatus(row, `${Math.floor(part * 100)} %`);
    },
  });
  row.querySelector("button").onclick = upload.stop;
  row.querySelector("button").hidden = false;
  try {
    await upload.done;
    bar.value = 1;
    showStatus(row, drop.dataset.done);
  } catch (error) {
    failed = true;
    showStatus(row, error.message || drop.dataset.stopped, Boolean(error.message));
  }
  row.querySelector("button").hidden = true;
}

function createRow(file) {
  const row = document.getElementById("upload-row").content.firstElementChild.cloneNode(true);
  row.querySelector("bdi").textContent = file.name;
  row.querySelector("progress").setAttribute("aria-label", file.name);
  row.querySelector("button").hidden = true;
  list.append(row);
  return row;
}

function showStatus(row, text, bad = false) {
  const status = row.querySelector("[data-status]");
  status.textContent = text;
  status.classList.toggle("bad-text", bad);
  if (bad) failed = true;
}

function fileExists(name) {
  return [...document.querySelectorAll("tr[data-name]")].some((row) => row.dataset.name === name);
}
