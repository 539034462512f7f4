// The loaded part of a log: consecutive rows from `start` to `end`, limited to what a browser can handle. Rows are grouped
// in batches, which are dropped at the far end and loaded again on demand.
import { PLAIN } from "./ansi.js";
import { createRow } from "./log_rows.js";

const MAX_ROWS = 10000;
const MAX_BYTES = 4 * 1024 * 1024;
const MAX_NODES = 80000;
const BATCH_SIZE = 250; // rows

export class LogWindow {
  #batches = [];
  #style = PLAIN; // style after the last line
  #tail = null; // element of the incomplete line

  /** `scroller` scrolls `body`. `onRows(rows)` is called with the rows added to the page: [{ start, end, element }]. */
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

  /** Remove all rows and continue at `offset`. */
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
      const batch = this.#getOpenBatch();
      const some = rows.slice(at, at + BATCH_SIZE - batch.rows.length);
      this.#style = this.#fillBatch(batch, some, this.#style);
      at += some.length;
    }
    if (rows.length) this.end = rows.at(-1).end;
  }

  /** Insert rows at the top without moving the visible rows. */
  prepend(rows) {
    if (!rows.length) return;
    const first = this.#batches[0]?.element ?? this.#tail;
    this.preserveScroll(() => {
      let style = PLAIN;
      for (let at = 0; at < rows.length; at += BATCH_SIZE) {
        const batch = createBatch();
        this.#batches.splice(at / BATCH_SIZE, 0, batch);
        this.body.insertBefore(batch.element, first ?? null);
        style = this.#fillBatch(batch, rows.slice(at, at + BATCH_SIZE), style);
      }
    });
    this.start = rows[0].start;
  }

  /** Show the incomplete line; null removes it. */
  setTail(row) {
    const added = row && createRow(row, this.#style).element;
    if (added) added.logStart = row.start;
    if (this.#tail) added ? this.#tail.replaceWith(added) : this.#tail.remove();
    else if (added) this.body.append(added);
    this.#tail = added;
  }

  /** Append a gap up to `to`; consecutive gaps are merged. `makeElement(from, to)` creates its element. */
  appendGap(to, makeElement) {
    const at = this.#batches.findIndex((batch) => batch.gap);
    const from = at < 0 ? this.end : this.#batches[at].start;
    while (at >= 0 && this.#batches.length > at) this.#removeBatch(this.#batches.length - 1);
    const element = makeElement(from, to);
    this.setTail(null);
    this.body.append(element);
    this.#batches.push({ gap: true, start: from, end: to, rows: [], bytes: 0, nodes: 0, element });
    this.#style = PLAIN;
    this.end = to;
  }

  /** Drop rows far from the reading position: old rows, or with `fromEnd` new ones. */
  trim(fromEnd) {
    if (!this.isFull) return false;
    const work = () => {
      while (this.isFull && this.#batches.length > 1) this.#removeBatch(fromEnd ? this.#batches.length - 1 : 0);
      if (this.#batches[0].gap) this.#removeBatch(0);
    };
    if (fromEnd) {
      this.setTail(null);
      work();
    } else {
      this.preserveScroll(work);
    }
    this.start = this.#batches[0]?.start ?? this.end;
    this.end = this.#batches.at(-1)?.end ?? this.start;
    return true;
  }

  /** Return the row that contains this byte, or null. */
  findRow(offset) {
    const batch = this.#batches.find((each) => each.start <= offset && offset < each.end && !each.gap);
    return batch?.rows.findLast((row) => row.start <= offset) ?? null;
  }

  /** Return the first visible row. */
  findFirstVisible() {
    const top = this.scroller.getBoundingClientRect().top;
    const batch = this.batches.find((each) => each.element.getBoundingClientRect().bottom > top);
    return batch?.rows.find((row) => row.element.getBoundingClientRect().bottom > top) ?? null;
  }

  preserveScroll(work) {
    const { scroller } = this;
    const fromEnd = scroller.scrollHeight - scroller.scrollTop;
    work();
    scroller.scrollTop = scroller.scrollHeight - fromEnd;
  }

  #getOpenBatch() {
    const last = this.#batches.at(-1);
    if (last && !last.gap && last.rows.length < BATCH_SIZE) return last;
    const batch = createBatch();
    this.#batches.push(batch);
    this.body.insertBefore(batch.element, this.#tail);
    return batch;
  }

  #fillBatch(batch, rows, style) {
    const added = [];
    for (const row of rows) {
      const { element, style: after, nodes } = createRow(row, style);
      style = after;
      element.logStart = row.start;
      added.push({ start: row.start, end: row.end, element });
      const bytes = 2 * row.text.length;
      batch.bytes += bytes;
      batch.nodes += nodes;
      this.bytes += bytes;
      this.nodes += nodes;
    }
    batch.start ??= added[0]?.start;
    batch.end = added.at(-1)?.end ?? batch.end;
    batch.rows.push(...added);
    batch.element.append(...added.map((row) => row.element));
    this.rows += added.length;
    this.onRows(added);
    return style;
  }

  #removeBatch(index) {
    const [batch] = this.#batches.splice(index, 1);
    batch.element.remove();
    this.rows -= batch.rows.length;
    this.bytes -= batch.bytes;
    this.nodes -= batch.nodes;
  }
}

function createBatch() {
  const element = document.createElement("div");
  element.className = "log-batch";
  return { start: undefined, end: undefined, rows: [], bytes: 0, nodes: 0, element };
}
