// htmx, where set-up could bring it: every request carries the proof that it is ours, and what it brings is made live.
import { bundled } from "./bundled.js";
import { showTimes } from "./times.js";

export async function startHtmx() {
  const htmx = (await bundled("htmx"))?.default;
  if (!htmx) return; // pages work without: links and forms load whole pages
  document.addEventListener("htmx:configRequest", (event) => {
    event.detail.headers["X-CSRF-Token"] = csrf();
  });
  document.addEventListener("htmx:beforeSwap", (event) => {
    if (event.detail.xhr.status >= 400 && event.detail.xhr.getResponseHeader("HX-Retarget")) event.detail.shouldSwap = true;
  });
  document.addEventListener("htmx:load", (event) => showTimes(event.detail.elt));
  document.addEventListener("change", keepQuiet, true);
  htmx.process(document.body);
}

/** Filters hear each letter; another request when the field is left would take the list away under somebody's click. */
function keepQuiet(event) {
  if (event.target.type === "search") event.stopPropagation();
}

export function csrf() {
  return document.querySelector("meta[name=csrf]")?.content ?? "";
}
