// Uploads an image file to the REST API and shows the progress.
import { uploadFile } from "./upload.js";

const form = document.getElementById("import");
const [bar, status, problem] = ["progress", "[role=status]", ".problem"].map((what) => form.querySelector(what));
const file = document.getElementById("image-file");
const name = document.getElementById("image-name");
const stop = form.querySelector("[data-stop]");
form.hidden = false;

file.addEventListener("change", () => {
  if (file.files[0] && !name.value) name.value = suggestName(file.files[0].name);
  validateFile();
});
form.addEventListener("submit", (event) => {
  event.preventDefault();
  if (validateFile()) startImport();
});

/** pytorch-2.4.tar.gz -> pytorch-2.4 */
function suggestName(text) {
  return text.replace(/\.(tar|tgz|gz|zst|xz)/gi, "").replace(/[^A-Za-z0-9._/:@-]+/g, "-").replace(/^[^A-Za-z0-9]+/, "");
}

function validateFile() {
  const large = file.files[0]?.size > Number(form.dataset.maxSize);
  showProblem(large ? form.dataset.tooLarge : "");
  return Boolean(file.files[0]) && !large;
}

function showProblem(text) {
  problem.textContent = text;
  problem.hidden = !text;
}

async function startImport() {
  const upload = uploadFile("POST", `/api/v1/images?name=${encodeURIComponent(name.value.trim())}`, file.files[0], {
    lostMessage: form.dataset.lost,
    onProgress(part) {
      bar.value = part;
      status.textContent = part < 1 ? `${Math.floor(part * 100)} %` : form.dataset.sent;
    },
  });
  stop.onclick = upload.stop;
  showBusy(true);
  try {
    await upload.done;
    location.reload();
  } catch (error) {
    showBusy(false);
    showProblem(error.message);
  }
}

function showBusy(busy) {
  bar.hidden = stop.hidden = !busy;
  form.querySelector(".primary").disabled = busy;
  status.textContent = "";
}
