// When each row of a log was written, for those who switched it on. The server knows it by pieces, to about a second:
// rows of the same piece have the same time, and where nothing is known nothing is claimed.

const two = (number) => String(number).padStart(2, "0");

export class Times {
  #known = new WeakMap(); // batch -> how many of its rows have theirs
  #timer = 0;

  constructor(feed, win) {
    this.feed = feed;
    this.window = win;
    this.on = false;
  }

  switch(on) {
    this.on = on;
    this.ask();
  }

  /** Soon, for all rows that have none. */
  ask() {
    if (!this.on || this.#timer) return;
    this.#timer = setTimeout(() => this.#fill(), 150);
  }

  async #fill() {
    try {
      for (const batch of this.window.batches) await this.#fillBatch(batch);
    } catch {
      // Without times, then: the log itself is read by other ways, which tell what is wrong.
    } finally {
      this.#timer = 0;
    }
  }

  async #fillBatch(batch) {
    const done = this.#known.get(batch) ?? 0;
    const rows = batch.rows.slice(done);
    if (!rows.length) return;
    const { pieces } = await this.feed.times(rows[0].start, rows.at(-1).end - rows[0].start);
    this.window.keepingPlace(() => showTimes(rows, pieces)); // on a phone a time takes a line
    this.#known.set(batch, done + rows.length);
  }
}

function showTimes(rows, pieces) {
  let at = 0;
  for (const row of rows) {
    while (at < pieces.length && pieces[at].end <= row.start) at++;
    const known = at < pieces.length && pieces[at].start <= row.start;
    row.element.dataset.at = known ? show(new Date(pieces[at].at)) : "";
  }
}

/** 03-01 12:00:05, in the reader's own zone. */
export function show(at) {
  return `${two(at.getMonth() + 1)}-${two(at.getDate())} ${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
}
