// Starts htmx, if it is bundled: adds the CSRF token to each request and formats the times in loaded content.
import { loadBundle } from "./bundles.js";
import { showTimes } from "./times.js";

export async function startHtmx() {
  const htmx = (await loadBundle("htmx"))?.default;
  if (!htmx) return; // pages work without it: links and forms load whole pages
  document.addEventListener("htmx:configRequest", (event) => {
    event.detail.headers["X-CSRF-Token"] = getCsrfToken();
  });
  document.addEventListener("htmx:beforeSwap", (event) => {
    if (event.detail.xhr.status >= 400 && event.detail.xhr.getResponseHeader("HX-Retarget")) event.detail.shouldSwap = true;
  });
  document.addEventListener("htmx:load", (event) => showTimes(event.detail.elt));
  document.addEventListener("change", stopSearchChange, true);
  htmx.process(document.body);
}

/** Search fields submit on input; the change event on blur would replace the list while the user clicks in it. */
function stopSearchChange(event) {
  if (event.target.type === "search") event.stopPropagation();
}

export function getCsrfToken() {
  return document.querySelector("meta[name=csrf]")?.content ?? "";
}
