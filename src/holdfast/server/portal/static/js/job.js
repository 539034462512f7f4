// A job's page that keeps up: when the job changes, the page is fetched again and merged into what is there.
import { connect } from "./live.js";
import { mergeInto } from "./merge.js";
import { showTimes } from "./times.js";

const AFTER_FAILURE = 5000; // ms

class Follower {
  constructor(root) {
    this.root = root;
    this.busy = false;
    this.again = false;
  }

  // One look at a time; what comes meanwhile leads to one more.
  async look() {
    if (this.busy) {
      this.again = true;
      return;
    }
    this.busy = true;
    try {
      await this.fetchAndMerge();
    } catch {
      setTimeout(() => this.look(), AFTER_FAILURE);
    }
    this.busy = false;
    if (this.again) {
      this.again = false;
      this.look();
    }
  }

  async fetchAndMerge() {
    const answer = await fetch(location.href, { headers: { "HX-Request": "true" } });
    if (answer.headers.get("HX-Redirect")) return location.assign(answer.headers.get("HX-Redirect"));
    if (answer.status === 404) return location.reload(); // says that it is gone, or not ours any more
    if (!answer.ok) throw new Error(String(answer.status));
    const fresh = document.createElement("template");
    fresh.innerHTML = await answer.text();
    mergeInto(this.root, fresh.content);
    showTimes(this.root);
  }
}

function start(root) {
  const follower = new Follower(root);
  connect(`/live/jobs?job=${encodeURIComponent(root.dataset.job)}`, () => follower.look());
  document.addEventListener("portal:refresh", () => follower.look());
  root.addEventListener("click", (event) => {
    if (!event.target.closest("[data-refresh]") || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    follower.look();
  });
}

const root = document.getElementById("job");
if (root) start(root);
