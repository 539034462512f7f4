// Shows when each row of a log was written, if enabled. The server knows the times of pieces, to about a second: rows of
// the same piece have the same time, and rows without a known time show none.

const padTwo = (number) => String(number).padStart(2, "0");
const UPDATE_INTERVAL = 150; // ms

export class LogTimes {
  #known = new WeakMap(); // batch -> number of its rows with times
  #timer = 0;

  constructor(client, win) {
    this.client = client;
    this.window = win;
    this.enabled = false;
  }

  setEnabled(on) {
    this.enabled = on;
    this.requestUpdate();
  }

  /** Schedule an update of all rows without times. */
  requestUpdate() {
    if (!this.enabled || this.#timer) return;
    this.#timer = setTimeout(() => this.#updateRows(), UPDATE_INTERVAL);
  }

  async #updateRows() {
    try {
      for (const batch of this.window.batches) await this.#updateBatch(batch);
    } catch {
      // Show no times: reading the log itself reports the problem.
    } finally {
      this.#timer = 0;
    }
  }

  async #updateBatch(batch) {
    const done = this.#known.get(batch) ?? 0;
    const rows = batch.rows.slice(done);
    if (!rows.length) return;
    const { pieces } = await this.client.readTimes(rows[0].start, rows.at(-1).end - rows[0].start);
    this.window.preserveScroll(() => showTimes(rows, pieces)); // on a phone a time takes a line of its own
    this.#known.set(batch, done + rows.length);
  }
}

function showTimes(rows, pieces) {
  let at = 0;
  for (const row of rows) {
    while (at < pieces.length && pieces[at].end <= row.start) at++;
    const known = at < pieces.length && pieces[at].start <= row.start;
    row.element.dataset.at = known ? formatTime(new Date(pieces[at].at)) : "";
  }
}

/** Return 03-01 12:00:05 in the user's time zone. */
export function formatTime(at) {
  return `${padTwo(at.getMonth() + 1)}-${padTwo(at.getDate())} ${padTwo(at.getHours())}:${padTwo(at.getMinutes())}:${padTwo(at.getSeconds())}`;
}
