// Putting files into a group's folder: chosen or dropped, one after the other, with their progress.
import { ask } from "./dialogs.js";
import { send } from "./upload.js";

const drop = document.getElementById("drop");
const list = drop.querySelector(".uploads");
const waiting = [];
let busy = false;
let failed = false;
drop.hidden = false;

document.getElementById("files").addEventListener("change", (event) => {
  add([...event.target.files]);
  event.target.value = "";
});
for (const [kind, over] of [["dragenter", true], ["dragover", true], ["dragleave", false], ["drop", false]]) {
  drop.addEventListener(kind, (event) => {
    event.preventDefault();
    drop.classList.toggle("over", over);
  });
}
drop.addEventListener("drop", (event) => add([...event.dataTransfer.files]));

async function add(files) {
  for (const file of files) {
    const row = newRow(file);
    if (file.size > Number(drop.dataset.most)) tell(row, drop.dataset.tooLarge, true);
    else if (isThere(file.name) && !(await ask(`${file.name}: ${drop.dataset.replace}`))) tell(row, drop.dataset.stopped);
    else waiting.push([file, row]);
  }
  if (!busy) work();
}

/** One at a time: the server takes only so many of one user at once. */
async function work() {
  busy = true;
  while (waiting.length) await put(...waiting.shift());
  busy = false;
  if (!failed && list.childElementCount) location.reload();
}

async function put(file, row) {
  const bar = row.querySelector("progress");
  const sending = send("PUT", drop.dataset.to + encodeURIComponent(file.name), file, {
    lost: drop.dataset.lost,
    onProgress(part) {
      bar.value = part;
      tell(row, `${Math.floor(part * 100)} %`);
    },
  });
  row.querySelector("button").onclick = sending.stop;
  row.querySelector("button").hidden = false;
  try {
    await sending.done;
    bar.value = 1;
    tell(row, drop.dataset.done);
  } catch (error) {
    failed = true;
    tell(row, error.message || drop.dataset.stopped, Boolean(error.message));
  }
  row.querySelector("button").hidden = true;
}

function newRow(file) {
  const row = document.getElementById("upload-row").content.firstElementChild.cloneNode(true);
  row.querySelector("bdi").textContent = file.name;
  row.querySelector("progress").setAttribute("aria-label", file.name);
  row.querySelector("button").hidden = true;
  list.append(row);
  return row;
}

function tell(row, text, bad = false) {
  const word = row.querySelector("[data-word]");
  word.textContent = text;
  word.classList.toggle("bad-text", bad);
  if (bad) failed = true;
}

function isThere(name) {
  return [...document.querySelectorAll("tr[data-name]")].some((row) => row.dataset.name === name);
}
