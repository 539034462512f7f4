// Sending a file to the REST API with its progress told. Words are the page's own.
import { csrf } from "./htmx.js";

/** Resolves when the server has it; rejects with an Error whose message is for people. `stop()` of the handle ends it. */
export function send(method, address, file, { onProgress, lost }) {
  const request = new XMLHttpRequest();
  const done = new Promise((resolve, reject) => {
    request.upload.addEventListener("progress", (event) => onProgress(event.total ? event.loaded / event.total : 1));
    request.addEventListener("load", () => (request.status < 300 ? resolve() : reject(new Error(reasonOf(request, lost)))));
    request.addEventListener("error", () => reject(new Error(lost)));
    request.addEventListener("abort", () => reject(new Error("")));
  });
  request.open(method, address);
  request.setRequestHeader("X-CSRF-Token", csrf());
  request.setRequestHeader("Content-Type", "application/octet-stream");
  request.send(file);
  return { done, stop: () => request.abort() };
}

function reasonOf(request, lost) {
  try {
    const { message, hint } = JSON.parse(request.responseText).error;
    return hint ? `${message}. ${hint}` : message;
  } catch {
    return lost;
  }
}
