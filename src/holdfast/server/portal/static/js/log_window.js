// The part of a log that is on the page: rows that follow each other from `start` to `end`, never more than a page can
// bear. They lie in batches, which are dropped at the far end and loaded again when somebody goes there.
import { PLAIN } from "./ansi.js";
import { makeRow } from "./log_rows.js";

const MAX_ROWS = 10000;
const MAX_BYTES = 4 * 1024 * 1024;
const MAX_NODES = 80000;
const BATCH = 250; // rows

export class LogWindow {
  #batches = [];
  #style = PLAIN; // how the line after the last one begins
  #tail = null; // the line that is not complete yet

  /** `scroller` scrolls `body`. `onRows(rows)` is told of every row that is new on the page: [{ start, end, element }]. */
  constructor(scroller, body, onRows) {
    this.scroller = scroller;
    this.body = body;
    this.onRows = onRows;
    this.start = this.end = 0;
    this.rows = this.bytes = this.nodes = 0;
  }

  get batches() {
    return this.#batches.filter((batch) => !batch.gap);
  }

  get isFull() {
    return this.rows > MAX_ROWS || this.bytes > MAX_BYTES || this.nodes > MAX_NODES;
  }

  /** Empty, at another place of the log. */
  reset(offset) {
    for (const batch of this.#batches) batch.element.remove();
    this.#batches = [];
    this.#style = PLAIN;
    this.setTail(null);
    this.start = this.end = offset;
    this.rows = this.bytes = this.nodes = 0;
  }

  append(rows) {
    for (let at = 0; at < rows.length; ) {
      const batch = this.#roomAtEnd();
      const some = rows.slice(at, at + BATCH - batch.rows.length);
      this.#style = this.#fill(batch, some, this.#style);
      at += some.length;
    }
    if (rows.length) this.end = rows.at(-1).end;
  }

  /** Above everything; what is seen stays where it is. */
  prepend(rows) {
    if (!rows.length) return;
    const first = this.#batches[0]?.element ?? this.#tail;
    this.keepingPlace(() => {
      let style = PLAIN;
      for (let at = 0; at < rows.length; at += BATCH) {
        const batch = makeBatch();
        this.#batches.splice(at / BATCH, 0, batch);
        this.body.insertBefore(batch.element, first ?? null);
        style = this.#fill(batch, rows.slice(at, at + BATCH), style);
      }
    });
    this.start = rows[0].start;
  }

  /** The line that is still being written; null: none. */
  setTail(row) {
    const made = row && makeRow(row, this.#style).element;
    if (made) made.logStart = row.start;
    if (this.#tail) made ? this.#tail.replaceWith(made) : this.#tail.remove();
    else if (made) this.body.append(made);
    this.#tail = made;
  }

  /** Something is left out after what is here, up to `to`. Left out twice, it becomes one. `element` stands for it. */
  leaveOut(to, makeElement) {
    const at = this.#batches.findIndex((batch) => batch.gap);
    const from = at < 0 ? this.end : this.#batches[at].start;
    while (at >= 0 && this.#batches.length > at) this.#remove(this.#batches.length - 1);
    const element = makeElement(from, to);
    this.setTail(null);
    this.body.append(element);
    this.#batches.push({ gap: true, start: from, end: to, rows: [], bytes: 0, nodes: 0, element });
    this.#style = PLAIN;
    this.end = to;
  }

  /** Drop what is far from where one reads: old rows, or with `fromEnd` new ones. */
  trim(fromEnd) {
    if (!this.isFull) return false;
    const work = () => {
      while (this.isFull && this.#batches.length > 1) this.#remove(fromEnd ? this.#batches.length - 1 : 0);
      if (this.#batches[0].gap) this.#remove(0);
    };
    if (fromEnd) {
      this.setTail(null);
      work();
    } else {
      this.keepingPlace(work);
    }
    this.start = this.#batches[0]?.start ?? this.end;
    this.end = this.#batches.at(-1)?.end ?? this.start;
    return true;
  }

  /** The row that holds this byte, or null. */
  find(offset) {
    const batch = this.#batches.find((each) => each.start <= offset && offset < each.end && !each.gap);
    return batch?.rows.findLast((row) => row.start <= offset) ?? null;
  }

  /** The first row that is seen. */
  firstSeen() {
    const top = this.scroller.getBoundingClientRect().top;
    const batch = this.batches.find((each) => each.element.getBoundingClientRect().bottom > top);
    return batch?.rows.find((row) => row.element.getBoundingClientRect().bottom > top) ?? null;
  }

  keepingPlace(work) {
    const { scroller } = this;
    const fromEnd = scroller.scrollHeight - scroller.scrollTop;
    work();
    scroller.scrollTop = scroller.scrollHeight - fromEnd;
  }

  #roomAtEnd() {
    const last = this.#batches.at(-1);
    if (last && !last.gap && last.rows.length < BATCH) return last;
    const batch = makeBatch();
    this.#batches.push(batch);
    this.body.insertBefore(batch.element, this.#tail);
    return batch;
  }

  #fill(batch, rows, style) {
    const made = [];
    for (const row of rows) {
      const { element, style: after, nodes } = makeRow(row, style);
      style = after;
      element.logStart = row.start;
      made.push({ start: row.start, end: row.end, element });
      const bytes = 2 * row.text.length;
      batch.bytes += bytes;
      batch.nodes += nodes;
      this.bytes += bytes;
      this.nodes += nodes;
    }
    batch.start ??= made[0]?.start;
    batch.end = made.at(-1)?.end ?? batch.end;
    batch.rows.push(...made);
    batch.element.append(...made.map((row) => row.element));
    this.rows += made.length;
    this.onRows(made);
    return style;
  }

  #remove(index) {
    const [batch] = this.#batches.splice(index, 1);
    batch.element.remove();
    this.rows -= batch.rows.length;
    this.bytes -= batch.bytes;
    this.nodes -= batch.nodes;
  }
}

function makeBatch() {
  const element = document.createElement("div");
  element.className = "log-batch";
  return { start: undefined, end: undefined, rows: [], bytes: 0, nodes: 0, element };
}
