// Uploads a file to the REST API and reports the progress. The caller provides the texts.
import { getCsrfToken } from "./htmx.js";

/** `done` resolves after the upload and rejects with an Error whose message is for users. `stop()` aborts it. */
export function uploadFile(method, address, file, { onProgress, lostMessage }) {
  const request = new XMLHttpRequest();
  const done = new Promise((resolve, reject) => {
    request.upload.addEventListener("progress", (event) => onProgress(event.total ? event.loaded / event.total : 1));
    request.addEventListener("load", () => (request.status < 300 ? resolve() : reject(new Error(parseReason(request, lostMessage)))));
    request.addEventListener("error", () => reject(new Error(lostMessage)));
    request.addEventListener("abort", () => reject(new Error("")));
  });
  request.open(method, address);
  request.setRequestHeader("X-CSRF-Token", getCsrfToken());
  request.setRequestHeader("Content-Type", "application/octet-stream");
  request.send(file);
  return { done, stop: () => request.abort() };
}

function parseReason(request, lostMessage) {
  try {
    const { message, hint } = JSON.parse(request.responseText).error;
    return hint ? `${message}. ${hint}` : message;
  } catch {
    return lostMessage;
  }
}
