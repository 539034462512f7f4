// The part of a page that the server sends again, for scripts that keep the page up to date.
import { toLogin } from "./live.js";
import { mergeInto } from "./merge.js";
import { showTimes } from "./times.js";

/** Its HTML; null where there is nothing to show now. `onGone` is called where it is not there any more. */
export async function fetchPart(address, onGone = () => {}) {
  try {
    const answer = await fetch(address, { headers: { "HX-Request": "true" } });
    if (answer.headers.has("HX-Redirect")) toLogin();
    if (answer.status === 404) onGone();
    return answer.status === 200 ? await answer.text() : null;
  } catch {
    return null; // the line tells that nobody answers, and what changed meanwhile once somebody does
  }
}

/** Makes `root` like what was fetched: all that is in it, or itself with the same id. */
export function showPart(root, html) {
  const fresh = document.createElement("template");
  fresh.innerHTML = html;
  const focused = document.activeElement;
  mergeInto(root, fresh.content.getElementById(root.id) ?? fresh.content);
  if (focused.isConnected && focused !== document.activeElement) focused.focus({ preventScroll: true }); // it was moved
  showTimes(root);
}
