// Searches a whole log page by page: first from the reading position to the end, then the part before it. The caller
// provides the requests.

const PAGE_SIZE = 1000; // hits per request
const MAX_HITS = 50000; // hits

export class LogSearch {
  #run = 0;
  #after = []; // offsets of hits after the start position, sorted
  #before = [];
  #scanned = 0;

  /** `fetchHits(query)` -> { hits, next }; `onChange()` is called on progress. */
  constructor(fetchHits, onChange) {
    this.fetchHits = fetchHits;
    this.onChange = onChange;
    this.searching = false;
    this.isFull = false;
    this.problem = "";
  }

  /** Offsets of all hits, sorted. */
  get hits() {
    return [...this.#before, ...this.#after];
  }

  /** Return the progress, from 0 to 1. */
  getProgress(size) {
    return size ? Math.min(1, this.#scanned / size) : 0;
  }

  stop() {
    this.#run++;
    this.searching = false;
  }

  clear() {
    this.stop();
    this.#after = [];
    this.#before = [];
    this.#scanned = 0;
    this.isFull = false;
    this.problem = "";
    this.onChange();
  }

  /** `query`: { q, regex, ignore_case }; `from`: the start of a line. `firstOnly`: stop at the first hit. */
  async start(query, from, firstOnly = false) {
    this.clear();
    const run = this.#run;
    this.searching = true;
    this.onChange();
    try {
      await this.#scanRange(run, query, from, Infinity, this.#after, firstOnly);
      if (from > 0 && !(firstOnly && this.#after.length)) await this.#scanRange(run, query, 0, from, this.#before, firstOnly);
    } catch (error) {
      if (run === this.#run) this.problem = error.message;
    }
    if (run !== this.#run) return;
    this.searching = false;
    this.onChange();
  }

  async #scanRange(run, query, begin, until, hits, firstOnly) {
    let next = begin;
    while (next !== null && next < until && run === this.#run && !this.isFull) {
      const page = await this.fetchHits({ ...query, start: next, limit: firstOnly ? 1 : PAGE_SIZE });
      if (run !== this.#run) return;
      hits.push(...page.hits.map((hit) => hit.offset).filter((offset) => offset < until));
      this.#scanned += (page.next ?? next) - next;
      next = page.next;
      this.isFull = this.#after.length + this.#before.length >= MAX_HITS;
      if (firstOnly && hits.length) return;
      this.onChange();
    }
  }
}

/** Return the hit after `offset`, or with `back` the one before it; wraps around. */
export function findNextHit(hits, offset, back) {
  if (!hits.length) return null;
  const found = back ? hits.findLast((hit) => hit < offset) : hits.find((hit) => hit > offset);
  return found ?? (back ? hits.at(-1) : hits[0]);
}
