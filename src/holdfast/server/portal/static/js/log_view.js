// The log view: shows a window of the log, loads more while scrolling, and appends new lines as they arrive.
import { LogClient } from "./log_client.js";
import { LogSearchForm } from "./log_search_form.js";
import { LogStream } from "./log_stream.js";
import { LineSplitter, countLines, findLineStart } from "./log_lines.js";
import { LogTimes } from "./log_times.js";
import { LogWindow } from "./log_window.js";
import { StatusText, formatBytes } from "./status_text.js";

const CHUNK_SIZE = 128 * 1024; // bytes per request
const TAIL_SIZE = 256 * 1024; // bytes of the newest lines
const LOAD_DISTANCE = 600; // px from an edge at which more is loaded
const BOTTOM_DISTANCE = 24; // px; a smaller distance counts as the bottom

export class LogView {
  #tail = null; // splitter at the end of the log, to which new bytes are added; null if the newest lines are not loaded
  #running = null; // promise of the running operation
  #following = true;
  #unseen = 0; // new lines below the visible part
  #lastScrollTop = 0; // px

  constructor(section) {
    const { data, first, size, complete, job, task, stream } = section.dataset;
    this.section = section;
    this.log = { job, task, attempt: section.dataset.attempt, try: section.dataset.try, stream };
    this.first = Number(first);
    this.size = Number(size);
    this.complete = complete !== undefined;
    this.client = new LogClient(data);
    this.status = new StatusText(section);
    this.scroller = section.querySelector(".log-scroll");
    this.body = section.querySelector(".log-body");
    this.rows = section.querySelector("[data-log-rows]");
    this.bottom = section.querySelector("[data-do=bottom]");
    this.window = new LogWindow(this.scroller, this.rows, (rows) => this.#onRowsAdded(rows));
    this.times = new LogTimes(this.client, this.window);
    this.searchForm = new LogSearchForm(this, this.client);
  }

  async start() {
    const { start, end, waiting } = this.section.dataset;
    this.#addListeners();
    if (waiting === undefined) await this.#runExclusive(() => this.#openRange(Number(start), Number(end)));
    else this.#showPart({ bytes: new Uint8Array(0) }, 0);
    if (!this.complete) this.#startStream();
  }

  // -- navigation

  /** Load the range that the page contains; if it reached the end, also the bytes written since. */
  async #openRange(start, end) {
    const since = end >= this.size ? TAIL_SIZE : 0;
    const part = await this.#fetchPart(() => this.client.readRange(start, end - start + since));
    if (!part) return;
    this.#showPart(part, part.start);
    if (since && !this.#tail) await this.#openTail();
    if (since) this.#scrollToEnd();
  }

  /** Load the newest lines. */
  async #openTail() {
    const part = await this.#fetchPart(() => this.client.readTail(TAIL_SIZE));
    if (!part) return;
    const skipped = part.start > this.first ? findLineStart(part.bytes) : 0;
    this.#showPart({ ...part, bytes: part.bytes.subarray(skipped) }, part.start + skipped);
  }

  /** Go to this byte; load the lines around it if necessary. */
  async goTo(offset) {
    this.#following = false;
    await this.#runExclusive(async () => this.window.findRow(offset) ?? this.#openAround(offset));
    this.#following = false;
    const row = this.window.findRow(offset)?.element;
    if (row) this.#centerRow(row);
    this.#updateEdges();
  }

  // Scrolls only the log, not the page.
  #centerRow(row) {
    const [here, there] = [row.getBoundingClientRect(), this.scroller.getBoundingClientRect()];
    this.scroller.scrollTop += here.top - there.top - (there.height - Math.min(here.height, there.height)) / 3;
  }

  async #openAround(offset) {
    const from = Math.max(this.first, offset - CHUNK_SIZE / 2);
    const part = await this.#fetchPart(() => this.client.readRange(from, CHUNK_SIZE));
    if (!part) return;
    const skipped = part.start > this.first ? Math.min(findLineStart(part.bytes), Math.max(0, offset - part.start)) : 0;
    this.#showPart({ ...part, bytes: part.bytes.subarray(skipped) }, part.start + skipped);
  }

  #showPart(part, start) {
    this.#tail = null;
    this.section.querySelector("[data-plain]")?.remove();
    this.window.reset(start);
    this.#appendPart(part, new LineSplitter(start));
  }

  /** Append bytes. If they reach the end of the log, new bytes will be added to them. */
  #appendPart(part, lines) {
    this.window.append(lines.addBytes(part.bytes));
    if (lines.offset >= this.size) this.#attachTail(lines);
    this.#updateEdges();
  }

  #attachTail(lines) {
    this.#tail = lines;
    this.#unseen = 0;
    if (this.complete) this.window.append(lines.finish());
    this.window.setTail(lines.pending);
  }

  async #loadOlder() {
    if (this.window.start <= this.first) return;
    const from = Math.max(this.first, this.window.start - CHUNK_SIZE);
    const part = await this.#fetchPart(() => this.client.readRange(from, this.window.start - from));
    if (!part || part.end !== this.window.start) return this.#handleDropped(part);
    const skipped = part.start > this.first ? findLineStart(part.bytes) : 0;
    const lines = new LineSplitter(part.start + skipped);
    this.window.prepend([...lines.addBytes(part.bytes.subarray(skipped)), ...lines.finish()]);
    if (this.window.trim(true)) this.#tail = null;
    this.#updateEdges();
  }

  // The size limit dropped the requested bytes.
  #handleDropped(part) {
    if (!part) return;
    this.first = this.window.start;
    this.#updateEdges();
  }

  async #loadNewer() {
    if (this.#tail) return;
    const part = await this.#fetchPart(() => this.client.readRange(this.window.end, CHUNK_SIZE));
    if (!part) return;
    this.#appendPart(part, new LineSplitter(part.start));
    this.window.trim(false);
    this.#updateEdges();
  }

  /** Run one operation at a time. */
  async #runExclusive(work) {
    while (this.#running) await this.#running;
    this.#running = work();
    try {
      await this.#running;
    } finally {
      this.#running = null;
    }
  }

  /** Return null on failure. */
  async #fetchPart(request) {
    try {
      const part = await request();
      this.size = Math.max(this.size, part.size);
      if (part.complete) this.complete = true;
      return part;
    } catch (error) {
      this.status.show("problem", { why: error.message });
      return null;
    }
  }

  // -- new lines

  #startStream() {
    const handlers = {
      getOffset: () => this.#tail?.offset ?? this.size,
      onData: (offset, bytes) => this.#handleData(offset, bytes),
      onSkip: (start, end) => this.#handleSkip(end),
      onWaiting: () => this.#showWaiting(true),
      onEnd: (message) => this.#handleEnd(message),
      onConnection: (open) => this.status.show(open ? "following" : "lost"),
      onRefused: () => this.status.show("refused"),
    };
    new LogStream(this.log, handlers).open();
  }

  #handleData(offset, bytes) {
    this.#showWaiting(false);
    this.size = Math.max(this.size, offset + bytes.length);
    if (this.#tail && offset > this.#tail.offset) this.#handleSkip(offset);
    if (!this.#tail) return this.#addUnseen(countLines(bytes));
    const fresh = bytes.subarray(Math.max(0, this.#tail.offset - offset));
    const rows = this.#tail.addBytes(fresh);
    this.window.append(rows);
    if (!this.#isTailSelected()) this.window.setTail(this.#tail.pending);
    if (this.#isAutoScrolling()) return this.#scrollToEnd();
    if (this.window.isFull) this.#tail = null; // keeps the lines that the user is reading
    this.#addUnseen(rows.length);
  }

  #handleSkip(to) {
    this.size = Math.max(this.size, to);
    if (!this.#tail || to <= this.#tail.offset) return;
    if (!this.#isAutoScrolling()) {
      this.#tail = null;
      return;
    }
    this.window.appendGap(to, (from, end) => this.#createGap(from, end));
    this.#tail = new LineSplitter(to);
    this.#scrollToEnd();
  }

  #createGap(from, to) {
    const gap = this.section.querySelector("template[data-gap]").content.firstElementChild.cloneNode(true);
    gap.querySelector("span").textContent = this.status.format("gap", { size: formatBytes(to - from) });
    gap.querySelector("button").addEventListener("click", () => this.goTo(from));
    return gap;
  }

  #handleEnd(message) {
    this.complete = true;
    if (this.#tail) {
      this.window.append(this.#tail.finish());
      this.window.setTail(null);
      if (this.#isAutoScrolling()) this.#scrollToEnd();
    }
    this.#showWaiting(false);
    const state = this.status.format(`state${message.task}`) || message.task;
    this.status.show(message.exit_code === null ? "ended" : "endedCode", { state, code: message.exit_code });
    const newest = this.section.querySelector("[data-newest]");
    if (newest) newest.hidden = message.final;
  }

  #showWaiting(waiting) {
    this.section.querySelector("[data-note]").hidden = !waiting;
  }

  // -- scrolling

  get #atBottom() {
    return this.scroller.scrollHeight - this.scroller.scrollTop - this.scroller.clientHeight < BOTTOM_DISTANCE;
  }

  #isAutoScrolling() {
    return this.#following && !this.#hasSelection();
  }

  #hasSelection() {
    const selection = getSelection();
    return !selection.isCollapsed && this.rows.contains(selection.anchorNode);
  }

  #isTailSelected() {
    return this.#hasSelection() && getSelection().containsNode(this.rows.lastChild, true);
  }

  #scrollToEnd() {
    this.window.trim(false);
    this.scroller.scrollTop = this.scroller.scrollHeight;
    this.#lastScrollTop = this.scroller.scrollTop;
    this.#updateEdges();
  }

  async scrollToBottom() {
    this.#following = true;
    await this.#runExclusive(async () => {
      if (!this.#tail && this.window.end < this.size) await this.#openTail();
    });
    this.#following = true;
    this.#unseen = 0;
    this.#scrollToEnd();
  }

  /** Return the offset of the first visible line. */
  getFirstVisibleOffset() {
    return this.window.findFirstVisible()?.start ?? this.window.start;
  }

  /** Mark the line at this offset. */
  highlightLine(offset) {
    for (const old of this.rows.querySelectorAll(".target")) old.classList.remove("target");
    this.window.findRow(offset)?.element.classList.add("target");
  }

  #addUnseen(lines) {
    this.#unseen += lines;
    this.#updateEdges();
  }

  #onRowsAdded(rows) {
    this.searchForm?.markRows(rows);
    this.times?.requestUpdate();
  }

  #onScroll() {
    const top = this.scroller.scrollTop;
    if (this.#atBottom) this.#following = this.#tail !== null;
    else if (top < this.#lastScrollTop) this.#following = false; // the user scrolled up: new lines do not scroll the log
    this.#lastScrollTop = top;
    if (this.#following) this.#unseen = 0;
    const below = this.scroller.scrollHeight - this.scroller.scrollTop - this.scroller.clientHeight;
    if (this.scroller.scrollTop < LOAD_DISTANCE) this.#loadMore(true);
    else if (below < LOAD_DISTANCE) this.#loadMore(false);
    this.#updateEdges();
  }

  #loadMore(older) {
    if (!this.#running) this.#runExclusive(() => (older ? this.#loadOlder() : this.#loadNewer()));
  }

  /** Update what is shown above the first line and below the last one, and the button to the bottom. */
  #updateEdges() {
    const getEdge = (name) => this.section.querySelector(`[data-edge=${name}]`) ?? {};
    getEdge("dropped").hidden = this.window.start > this.first;
    getEdge("older").hidden = this.window.start <= this.first;
    getEdge("newer").hidden = this.#tail !== null || this.window.end >= this.size;
    this.bottom.hidden = this.#atBottom && (this.#tail !== null || this.window.end >= this.size);
    const unseen = this.bottom.querySelector("[data-unseen]");
    unseen.textContent = this.#unseen ? this.status.formatCount("unseen", this.#unseen) : "";
    this.section.querySelector("[data-size]").textContent = this.size ? formatBytes(this.size) : "";
  }

  #addListeners() {
    let scheduled = false;
    const schedule = () => {
      if (scheduled) return;
      scheduled = true;
      requestAnimationFrame(() => {
        scheduled = false;
        this.#onScroll();
      });
    };
    this.scroller.addEventListener("scroll", schedule, { passive: true });
    this.bottom.addEventListener("click", () => this.scrollToBottom());
    this.section.querySelector("[data-edge=older]").addEventListener("click", () => this.#loadMore(true));
    this.section.querySelector("[data-edge=newer]").addEventListener("click", () => this.#loadMore(false));
    document.addEventListener("selectionchange", () => {
      if (this.#unseen && this.#isAutoScrolling()) this.scrollToBottom();
    });
  }
}
