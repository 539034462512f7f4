// Searching a whole log, a piece after the other: first what follows where one reads, then what is before it. Pure: asking
// is given.

const PIECE = 1000; // hits of one answer
const MOST = 50000; // hits that are kept

export class Search {
  #run = 0;
  #after = []; // offsets of hits from where one read, in order
  #before = [];
  #scanned = 0;

  /** `ask(question)` -> { hits, next }; `changed()` whenever there is more to tell. */
  constructor(ask, changed) {
    this.ask = ask;
    this.changed = changed;
    this.searching = false;
    this.isFull = false;
    this.problem = "";
  }

  /** Offsets, in order. */
  get hits() {
    return [...this.#before, ...this.#after];
  }

  /** From 0 to 1. */
  share(size) {
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
    this.changed();
  }

  /** `question`: { q, regex, ignore_case }; `from`: the beginning of a line. `only`: stop at the first hit. */
  async start(question, from, only = false) {
    this.clear();
    const run = this.#run;
    this.searching = true;
    this.changed();
    try {
      await this.#scan(run, question, from, Infinity, this.#after, only);
      if (from > 0 && !(only && this.#after.length)) await this.#scan(run, question, 0, from, this.#before, only);
    } catch (error) {
      if (run === this.#run) this.problem = error.message;
    }
    if (run !== this.#run) return;
    this.searching = false;
    this.changed();
  }

  async #scan(run, question, begin, until, into, only) {
    let next = begin;
    while (next !== null && next < until && run === this.#run && !this.isFull) {
      const answer = await this.ask({ ...question, start: next, limit: only ? 1 : PIECE });
      if (run !== this.#run) return;
      into.push(...answer.hits.map((hit) => hit.offset).filter((offset) => offset < until));
      this.#scanned += (answer.next ?? next) - next;
      next = answer.next;
      this.isFull = this.#after.length + this.#before.length >= MOST;
      if (only && into.length) return;
      this.changed();
    }
  }
}

/** The hit after `offset`, or with `back` the one before it; round the end it begins again. */
export function nextHit(hits, offset, back) {
  if (!hits.length) return null;
  const found = back ? hits.findLast((hit) => hit < offset) : hits.find((hit) => hit > offset);
  return found ?? (back ? hits.at(-1) : hits[0]);
}
