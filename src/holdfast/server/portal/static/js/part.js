// Fetches and shows a part of a page again, for scripts that keep the page up to date.
import { redirectToLogin } from "./live.js";
import { mergeContent } from "./merge.js";
import { showTimes } from "./times.js";

/** Return the HTML of the part; null if there is none now. Calls `onGone` if the part does not exist any more. */
export async function fetchPart(address, onGone = () => {}) {
  try {
    const response = await fetch(address, { headers: { "HX-Request": "true" } });
    if (response.headers.has("HX-Redirect")) redirectToLogin();
    if (response.status === 404) onGone();
    return response.status === 200 ? await response.text() : null;
  } catch {
    return null; // the live socket shows the failure, and reports missed changes after it reconnects
  }
}

/** Update `root` to match the HTML: its content, or the element with the same id. */
export function showPart(root, html) {
  const fresh = document.createElement("template");
  fresh.innerHTML = html;
  const focused = document.activeElement;
  mergeContent(root, fresh.content.getElementById(root.id) ?? fresh.content);
  if (focused.isConnected && focused !== document.activeElement) focused.focus({ preventScroll: true }); // the merge moved it
  showTimes(root);
}
