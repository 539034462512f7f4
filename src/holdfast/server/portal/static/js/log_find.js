// The search of a log: what is typed, how many hits there are so far, going from one to the next, and the first error.
import { Search, nextHit } from "./log_search.js";

const HIGHLIGHT = "log-hit";

export class Find {
  #current = null; // offset of the hit one is at
  #waits = false; // to go to the first hit that comes
  #asked = ""; // what was searched for

  /** `view`: { section, window, words, size, goTo(offset), readingFrom() }. */
  constructor(view, feed) {
    this.view = view;
    this.form = view.section.querySelector("[data-find]");
    this.count = this.form.querySelector("[data-count]");
    this.search = new Search((question) => feed.search(question), () => this.#show());
    this.error = new Search((question) => feed.search(question), () => this.#showError());
    this.form.addEventListener("submit", (event) => this.#submit(event));
    this.form.addEventListener("change", () => this.#again());
    this.form.addEventListener("input", () => this.#emptied());
    this.form.addEventListener("keydown", (event) => this.#key(event));
    this.form.querySelector("[data-do=previous]").addEventListener("click", () => this.#step(true));
    view.section.querySelector("[data-do=error]").addEventListener("click", () => this.#firstError());
  }

  /** Mark hits among rows that are new on the page. */
  mark(rows) {
    const hits = this.search.hits;
    if (hits.length) for (const row of rows) this.#markRow(row, hits);
    this.#highlight();
  }

  get #question() {
    const { q, regex, exact } = this.form.elements;
    return { q: q.value, regex: regex.checked, ignore_case: !exact.checked };
  }

  #submit(event) {
    event.preventDefault();
    const wanted = JSON.stringify(this.#question);
    if (!this.#question.q) return this.clear();
    if (wanted === this.#asked) return this.#step(false);
    this.#begin(wanted);
  }

  #again() {
    if (this.#asked && this.#question.q) this.#begin(JSON.stringify(this.#question));
  }

  #emptied() {
    if (!this.#question.q) this.clear();
  }

  #key(event) {
    if (event.key === "Enter" && event.shiftKey) {
      event.preventDefault();
      this.#step(true);
    } else if (event.key === "Escape") {
      this.form.elements.q.value = "";
      this.clear();
    }
  }

  #begin(wanted) {
    this.#asked = wanted;
    this.#current = null;
    this.#waits = true;
    this.search.start(this.#question, this.view.readingFrom());
  }

  clear() {
    this.#asked = "";
    this.#current = null;
    this.search.clear();
  }

  #step(back) {
    const hit = nextHit(this.search.hits, this.#current ?? -1, back);
    if (hit !== null) this.#go(hit);
  }

  #go(hit) {
    this.#current = hit;
    this.#waits = false;
    this.view.goTo(hit);
    this.#show();
  }

  #show() {
    const hits = this.search.hits;
    if (this.#waits && hits.length) return this.#go(nextHit(hits, this.view.readingFrom() - 1, false));
    this.count.textContent = this.#asked ? this.#told(hits) : "";
    this.form.classList.toggle("wrong", Boolean(this.search.problem));
    for (const batch of this.view.window.batches) for (const row of batch.rows) this.#markRow(row, hits);
    this.#highlight();
  }

  #told(hits) {
    const { words, size } = this.view;
    if (this.search.problem) return words.say("searchProblem", { why: this.search.problem });
    const names = { n: hits.length.toLocaleString(), percent: Math.floor(100 * this.search.share(size)), at: hits.indexOf(this.#current) + 1 };
    if (this.search.searching) return words.say("searching", names);
    if (this.search.isFull) return words.say("searchFull", names);
    if (!hits.length) return words.say("searchNone");
    return this.#current === null ? words.say("searchFound", names) : words.say("searchAt", names);
  }

  #markRow(row, hits) {
    const from = firstFrom(hits, row.start);
    const is = from < hits.length && hits[from] < row.end;
    row.element.classList.toggle("hit", is);
    row.element.classList.toggle("now", is && this.#current !== null && this.#current >= row.start && this.#current < row.end);
  }

  // The very words, where they are plain text: a pattern is RE2's, and the row is marked anyway.
  #highlight() {
    if (!globalThis.CSS?.highlights) return;
    const { q, regex, ignore_case: anyCase } = this.#question;
    CSS.highlights.delete(HIGHLIGHT);
    if (!this.#asked || regex || !q) return;
    const ranges = [...this.view.window.body.querySelectorAll(".row.hit")].slice(-2000).flatMap((row) => rangesOf(row, q, anyCase));
    CSS.highlights.set(HIGHLIGHT, new Highlight(...ranges));
  }

  // -- the first error

  async #firstError() {
    if (this.error.searching) {
      this.error.clear();
      return;
    }
    await this.error.start({ q: this.view.section.dataset.errorPattern, regex: true, ignore_case: false }, 0, true);
    const [hit] = this.error.hits;
    if (hit === undefined) return;
    await this.view.goTo(hit);
    this.view.point(hit);
  }

  #showError() {
    const { words, size } = this.view;
    if (this.error.searching) words.tell("errorSearching", { percent: Math.floor(100 * this.error.share(size)) });
    else if (this.error.problem) words.tell("searchProblem", { why: this.error.problem });
    else if (this.error.hits.length) words.tell("errorFound");
    else words.tell("errorNone");
  }
}

function firstFrom(sorted, value) {
  let low = 0;
  let high = sorted.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle] < value) low = middle + 1;
    else high = middle;
  }
  return low;
}

function rangesOf(row, text, anyCase) {
  const found = [];
  const wanted = anyCase ? text.toLowerCase() : text;
  const walker = document.createTreeWalker(row, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const inside = anyCase ? node.data.toLowerCase() : node.data;
    if (inside.length !== node.data.length) continue; // a letter that is longer in the other case
    for (let at = inside.indexOf(wanted); at >= 0; at = inside.indexOf(wanted, at + wanted.length)) {
      const range = new Range();
      range.setStart(node, at);
      range.setEnd(node, at + wanted.length);
      found.push(range);
    }
  }
  return found;
}
