// Importing an image: the file goes to the REST API, and the page tells how far it is.
import { send } from "./upload.js";

const form = document.getElementById("import");
const [bar, status, problem] = ["progress", "[role=status]", ".problem"].map((what) => form.querySelector(what));
const file = document.getElementById("image-file");
const name = document.getElementById("image-name");
const stop = form.querySelector("[data-stop]");
form.hidden = false;

file.addEventListener("change", () => {
  if (file.files[0] && !name.value) name.value = guess(file.files[0].name);
  check();
});
form.addEventListener("submit", (event) => {
  event.preventDefault();
  if (check()) start();
});

/** pytorch-2.4.tar.gz -> pytorch-2.4 */
function guess(text) {
  return text.replace(/\.(tar|tgz|gz|zst|xz)/gi, "").replace(/[^A-Za-z0-9._/:@-]+/g, "-").replace(/^[^A-Za-z0-9]+/, "");
}

function check() {
  const large = file.files[0]?.size > Number(form.dataset.most);
  say(large ? form.dataset.tooLarge : "");
  return Boolean(file.files[0]) && !large;
}

function say(text) {
  problem.textContent = text;
  problem.hidden = !text;
}

async function start() {
  const sending = send("POST", `/api/v1/images?name=${encodeURIComponent(name.value.trim())}`, file.files[0], {
    lost: form.dataset.lost,
    onProgress(part) {
      bar.value = part;
      status.textContent = part < 1 ? `${Math.floor(part * 100)} %` : form.dataset.sent;
    },
  });
  stop.onclick = sending.stop;
  show(true);
  try {
    await sending.done;
    location.reload();
  } catch (error) {
    show(false);
    say(error.message);
  }
}

function show(busy) {
  bar.hidden = stop.hidden = !busy;
  form.querySelector(".primary").disabled = busy;
  status.textContent = "";
}
