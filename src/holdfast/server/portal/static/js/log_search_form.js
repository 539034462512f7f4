// The search form of a log: input, number of hits, navigation between hits, and the first error.
import { LogSearch, findNextHit } from "./log_search.js";

const HIGHLIGHT = "log-hit";

export class LogSearchForm {
  #current = null; // offset of the current hit
  #goToFirst = false; // whether to go to the first hit that is found
  #searched = ""; // the last query

  /** `view`: { section, window, status, size, goTo(offset), highlightLine(offset), getFirstVisibleOffset() }. */
  constructor(view, client) {
    this.view = view;
    this.form = view.section.querySelector("[data-find]");
    this.count = this.form.querySelector("[data-count]");
    this.search = new LogSearch((query) => client.search(query), () => this.#showHits());
    this.error = new LogSearch((query) => client.search(query), () => this.#showError());
    this.form.addEventListener("submit", (event) => this.#submit(event));
    this.form.addEventListener("change", () => this.#restart());
    this.form.addEventListener("input", () => this.#clearIfEmpty());
    this.form.addEventListener("keydown", (event) => this.#onKey(event));
    this.form.querySelector("[data-do=previous]").addEventListener("click", () => this.#goToNext(true));
    view.section.querySelector("[data-do=error]").addEventListener("click", () => this.#findFirstError());
  }

  /** Mark hits in rows that were added to the page. */
  markRows(rows) {
    const hits = this.search.hits;
    if (hits.length) for (const row of rows) this.#markRow(row, hits);
    this.#highlight();
  }

  get #query() {
    const { q, regex, exact } = this.form.elements;
    return { q: q.value, regex: regex.checked, ignore_case: !exact.checked };
  }

  #submit(event) {
    event.preventDefault();
    const wanted = JSON.stringify(this.#query);
    if (!this.#query.q) return this.clear();
    if (wanted === this.#searched) return this.#goToNext(false);
    this.#startSearch(wanted);
  }

  #restart() {
    if (this.#searched && this.#query.q) this.#startSearch(JSON.stringify(this.#query));
  }

  #clearIfEmpty() {
    if (!this.#query.q) this.clear();
  }

  #onKey(event) {
    if (event.key === "Enter" && event.shiftKey) {
      event.preventDefault();
      this.#goToNext(true);
    } else if (event.key === "Escape") {
      this.form.elements.q.value = "";
      this.clear();
    }
  }

  #startSearch(wanted) {
    this.#searched = wanted;
    this.#current = null;
    this.#goToFirst = true;
    this.search.start(this.#query, this.view.getFirstVisibleOffset());
  }

  clear() {
    this.#searched = "";
    this.#current = null;
    this.search.clear();
  }

  #goToNext(back) {
    const hit = findNextHit(this.search.hits, this.#current ?? -1, back);
    if (hit !== null) this.#goToHit(hit);
  }

  #goToHit(hit) {
    this.#current = hit;
    this.#goToFirst = false;
    this.view.goTo(hit);
    this.#showHits();
  }

  #showHits() {
    const hits = this.search.hits;
    if (this.#goToFirst && hits.length) return this.#goToHit(findNextHit(hits, this.view.getFirstVisibleOffset() - 1, false));
    this.count.textContent = this.#searched ? this.#formatCount(hits) : "";
    this.form.classList.toggle("invalid", Boolean(this.search.problem));
    for (const batch of this.view.window.batches) for (const row of batch.rows) this.#markRow(row, hits);
    this.#highlight();
  }

  #formatCount(hits) {
    const { status, size } = this.view;
    if (this.search.problem) return status.format("searchProblem", { why: this.search.problem });
    const names = { n: hits.length.toLocaleString(), percent: Math.floor(100 * this.search.getProgress(size)), at: hits.indexOf(this.#current) + 1 };
    if (this.search.searching) return status.format("searching", names);
    if (this.search.isFull) return status.format("searchFull", names);
    if (!hits.length) return status.format("searchNone");
    return this.#current === null ? status.format("searchFound", names) : status.format("searchAt", names);
  }

  #markRow(row, hits) {
    const from = findFirstIndex(hits, row.start);
    const isHit = from < hits.length && hits[from] < row.end;
    row.element.classList.toggle("hit", isHit);
    row.element.classList.toggle("current", isHit && this.#current !== null && this.#current >= row.start && this.#current < row.end);
  }

  // Highlights matches of plain text. Patterns use RE2 syntax, which browsers lack; their rows are marked anyway.
  #highlight() {
    if (!globalThis.CSS?.highlights) return;
    const { q, regex, ignore_case: anyCase } = this.#query;
    CSS.highlights.delete(HIGHLIGHT);
    if (!this.#searched || regex || !q) return;
    const ranges = [...this.view.window.body.querySelectorAll(".row.hit")].slice(-2000).flatMap((row) => findRanges(row, q, anyCase));
    CSS.highlights.set(HIGHLIGHT, new Highlight(...ranges));
  }

  // -- the first error

  async #findFirstError() {
    if (this.error.searching) {
      this.error.clear();
      return;
    }
    await this.error.start({ q: this.view.section.dataset.errorPattern, regex: true, ignore_case: false }, 0, true);
    const [hit] = this.error.hits;
    if (hit === undefined) return;
    await this.view.goTo(hit);
    this.view.highlightLine(hit);
  }

  #showError() {
    const { status, size } = this.view;
    if (this.error.searching) status.show("errorSearching", { percent: Math.floor(100 * this.error.getProgress(size)) });
    else if (this.error.problem) status.show("searchProblem", { why: this.error.problem });
    else if (this.error.hits.length) status.show("errorFound");
    else status.show("errorNone");
  }
}

function findFirstIndex(sorted, value) {
  let low = 0;
  let high = sorted.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle] < value) low = middle + 1;
    else high = middle;
  }
  return low;
}

function findRanges(row, text, anyCase) {
  const found = [];
  const wanted = anyCase ? text.toLowerCase() : text;
  const walker = document.createTreeWalker(row, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const inside = anyCase ? node.data.toLowerCase() : node.data;
    if (inside.length !== node.data.length) continue; // the other case of a letter has another length
    for (let at = inside.indexOf(wanted); at >= 0; at = inside.indexOf(wanted, at + wanted.length)) {
      const range = new Range();
      range.setStart(node, at);
      range.setEnd(node, at + wanted.length);
      found.push(range);
    }
  }
  return found;
}
