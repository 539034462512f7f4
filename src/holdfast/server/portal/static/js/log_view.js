// A log on a page: what is shown of it, going up and down in it without end, and its newest lines as they come.
import { Feed } from "./log_feed.js";
import { Find } from "./log_find.js";
import { Follow } from "./log_follow.js";
import { Lines, countLines, firstBreak } from "./log_lines.js";
import { Times } from "./log_times.js";
import { LogWindow } from "./log_window.js";
import { Words, showBytes } from "./log_words.js";

const CHUNK = 128 * 1024; // bytes loaded at one time
const TAIL = 256 * 1024; // bytes of newest lines
const NEAR = 600; // px from an edge at which more is loaded
const AT_BOTTOM = 24; // px

export class LogView {
  #live = null; // Lines that end where the log does: what comes is added to them. null: the newest lines are not here
  #reading = null; // what is under way
  #following = true;
  #unseen = 0; // new lines below
  #top = 0; // where it was scrolled to

  constructor(section) {
    const { data, first, size, complete, job, task, stream } = section.dataset;
    this.section = section;
    this.log = { job, task, attempt: section.dataset.attempt, try: section.dataset.try, stream };
    this.first = Number(first);
    this.size = Number(size);
    this.complete = complete !== undefined;
    this.feed = new Feed(data);
    this.words = new Words(section);
    this.scroller = section.querySelector(".log-scroll");
    this.body = section.querySelector(".log-body");
    this.rows = section.querySelector("[data-rows-here]");
    this.bottom = section.querySelector("[data-do=bottom]");
    this.window = new LogWindow(this.scroller, this.rows, (rows) => this.#added(rows));
    this.times = new Times(this.feed, this.window);
    this.find = new Find(this, this.feed);
  }

  async begin() {
    const { start, end, waiting } = this.section.dataset;
    this.#listen();
    if (waiting === undefined) await this.#alone(() => this.#open(Number(start), Number(end)));
    else this.#show({ bytes: new Uint8Array(0) }, 0);
    if (!this.complete) this.#follow();
  }

  // -- places in the log

  /** What the page came with; where that was all, also what has been written since. */
  async #open(start, end) {
    const since = end >= this.size ? TAIL : 0;
    const part = await this.#read(() => this.feed.read(start, end - start + since));
    if (!part) return;
    this.#show(part, part.start);
    if (since && !this.#live) await this.#openTail();
    if (since) this.#move();
  }

  /** The newest lines. */
  async #openTail() {
    const part = await this.#read(() => this.feed.tail(TAIL));
    if (!part) return;
    const skipped = part.start > this.first ? firstBreak(part.bytes) : 0;
    this.#show({ ...part, bytes: part.bytes.subarray(skipped) }, part.start + skipped);
  }

  /** Where this byte is; what is around it is loaded if it is not here. */
  async goTo(offset) {
    this.#following = false;
    await this.#alone(async () => this.window.find(offset) ?? this.#openAround(offset));
    this.#following = false;
    const row = this.window.find(offset)?.element;
    if (row) this.#center(row);
    this.#edges();
  }

  // Within the log alone: the page around it stays where it is.
  #center(row) {
    const [here, there] = [row.getBoundingClientRect(), this.scroller.getBoundingClientRect()];
    this.scroller.scrollTop += here.top - there.top - (there.height - Math.min(here.height, there.height)) / 3;
  }

  async #openAround(offset) {
    const from = Math.max(this.first, offset - CHUNK / 2);
    const part = await this.#read(() => this.feed.read(from, CHUNK));
    if (!part) return;
    const skipped = part.start > this.first ? Math.min(firstBreak(part.bytes), Math.max(0, offset - part.start)) : 0;
    this.#show({ ...part, bytes: part.bytes.subarray(skipped) }, part.start + skipped);
  }

  #show(part, start) {
    this.#live = null;
    this.section.querySelector("[data-plain]")?.remove();
    this.window.reset(start);
    this.#take(part, new Lines(start));
  }

  /** Bytes after what is here. Where they reach the end of the log, more will be added as it comes. */
  #take(part, lines) {
    this.window.append(lines.take(part.bytes));
    if (lines.offset >= this.size) this.#attach(lines);
    this.#edges();
  }

  #attach(lines) {
    this.#live = lines;
    this.#unseen = 0;
    if (this.complete) this.window.append(lines.finish());
    this.window.setTail(lines.pending);
  }

  async #older() {
    if (this.window.start <= this.first) return;
    const from = Math.max(this.first, this.window.start - CHUNK);
    const part = await this.#read(() => this.feed.read(from, this.window.start - from));
    if (!part || part.end !== this.window.start) return this.#dropped(part);
    const skipped = part.start > this.first ? firstBreak(part.bytes) : 0;
    const lines = new Lines(part.start + skipped);
    this.window.prepend([...lines.take(part.bytes.subarray(skipped)), ...lines.finish()]);
    if (this.window.trim(true)) this.#live = null;
    this.#edges();
  }

  // The size cap took what was asked for.
  #dropped(part) {
    if (!part) return;
    this.first = this.window.start;
    this.#edges();
  }

  async #newer() {
    if (this.#live) return;
    const part = await this.#read(() => this.feed.read(this.window.end, CHUNK));
    if (!part) return;
    this.#take(part, new Lines(part.start));
    this.window.trim(false);
    this.#edges();
  }

  /** One thing at a time. */
  async #alone(work) {
    while (this.#reading) await this.#reading;
    this.#reading = work();
    try {
      await this.#reading;
    } finally {
      this.#reading = null;
    }
  }

  /** null when it could not be had. */
  async #read(ask) {
    try {
      const part = await ask();
      this.size = Math.max(this.size, part.size);
      if (part.complete) this.complete = true;
      return part;
    } catch (error) {
      this.words.tell("problem", { why: error.message });
      return null;
    }
  }

  // -- as it grows

  #follow() {
    const heard = {
      from: () => this.#live?.offset ?? this.size,
      data: (offset, bytes) => this.#grow(offset, bytes),
      skip: (start, end) => this.#skip(end),
      waiting: () => this.#note(true),
      end: (message) => this.#ended(message),
      line: (open) => this.words.tell(open ? "following" : "lost"),
      refused: () => this.words.tell("refused"),
    };
    new Follow(this.log, heard).open();
  }

  #grow(offset, bytes) {
    this.#note(false);
    this.size = Math.max(this.size, offset + bytes.length);
    if (this.#live && offset > this.#live.offset) this.#skip(offset);
    if (!this.#live) return this.#count(countLines(bytes));
    const fresh = bytes.subarray(Math.max(0, this.#live.offset - offset));
    const rows = this.#live.take(fresh);
    this.window.append(rows);
    if (!this.#tailIsSelected()) this.window.setTail(this.#live.pending);
    if (this.#isMoving()) return this.#move();
    if (this.window.isFull) this.#live = null; // whoever reads further up keeps what is read
    this.#count(rows.length);
  }

  #skip(to) {
    this.size = Math.max(this.size, to);
    if (!this.#live || to <= this.#live.offset) return;
    if (!this.#isMoving()) {
      this.#live = null;
      return;
    }
    this.window.leaveOut(to, (from, end) => this.#makeGap(from, end));
    this.#live = new Lines(to);
    this.#move();
  }

  #makeGap(from, to) {
    const gap = this.section.querySelector("template[data-gap]").content.firstElementChild.cloneNode(true);
    gap.querySelector("span").textContent = this.words.say("gap", { size: showBytes(to - from) });
    gap.querySelector("button").addEventListener("click", () => this.goTo(from));
    return gap;
  }

  #ended(message) {
    this.complete = true;
    if (this.#live) {
      this.window.append(this.#live.finish());
      this.window.setTail(null);
      if (this.#isMoving()) this.#move();
    }
    this.#note(false);
    const state = this.words.say(`state${message.task}`) || message.task;
    this.words.tell(message.exit_code === null ? "ended" : "endedCode", { state, code: message.exit_code });
    const newest = this.section.querySelector("[data-newest]");
    if (newest) newest.hidden = message.final;
  }

  #note(waiting) {
    this.section.querySelector("[data-note]").hidden = !waiting;
  }

  // -- scrolling

  get #atBottom() {
    return this.scroller.scrollHeight - this.scroller.scrollTop - this.scroller.clientHeight < AT_BOTTOM;
  }

  #isMoving() {
    return this.#following && !this.#isSelected();
  }

  #isSelected() {
    const selection = getSelection();
    return !selection.isCollapsed && this.rows.contains(selection.anchorNode);
  }

  #tailIsSelected() {
    return this.#isSelected() && getSelection().containsNode(this.rows.lastChild, true);
  }

  #move() {
    this.window.trim(false);
    this.scroller.scrollTop = this.scroller.scrollHeight;
    this.#top = this.scroller.scrollTop;
    this.#edges();
  }

  async toBottom() {
    this.#following = true;
    await this.#alone(async () => {
      if (!this.#live && this.window.end < this.size) await this.#openTail();
    });
    this.#following = true;
    this.#unseen = 0;
    this.#move();
  }

  /** The offset of the first line that is seen. */
  readingFrom() {
    return this.window.firstSeen()?.start ?? this.window.start;
  }

  /** Mark the line one was led to. */
  point(offset) {
    for (const old of this.rows.querySelectorAll(".pointed")) old.classList.remove("pointed");
    this.window.find(offset)?.element.classList.add("pointed");
  }

  #count(lines) {
    this.#unseen += lines;
    this.#edges();
  }

  #added(rows) {
    this.find?.mark(rows);
    this.times?.ask();
  }

  #scrolled() {
    const top = this.scroller.scrollTop;
    if (this.#atBottom) this.#following = this.#live !== null;
    else if (top < this.#top) this.#following = false; // somebody went up: what grows below moves nothing
    this.#top = top;
    if (this.#following) this.#unseen = 0;
    const below = this.scroller.scrollHeight - this.scroller.scrollTop - this.scroller.clientHeight;
    if (this.scroller.scrollTop < NEAR) this.#more(true);
    else if (below < NEAR) this.#more(false);
    this.#edges();
  }

  #more(older) {
    if (!this.#reading) this.#alone(() => (older ? this.#older() : this.#newer()));
  }

  /** What stands above the first line and below the last one, and the way down. */
  #edges() {
    const here = (name) => this.section.querySelector(`[data-edge=${name}]`) ?? {};
    here("dropped").hidden = this.window.start > this.first;
    here("older").hidden = this.window.start <= this.first;
    here("newer").hidden = this.#live !== null || this.window.end >= this.size;
    this.bottom.hidden = this.#atBottom && (this.#live !== null || this.window.end >= this.size);
    const unseen = this.bottom.querySelector("[data-unseen]");
    unseen.textContent = this.#unseen ? this.words.count("unseen", this.#unseen) : "";
    this.section.querySelector("[data-size]").textContent = this.size ? showBytes(this.size) : "";
  }

  #listen() {
    let asked = false;
    const soon = () => {
      if (asked) return;
      asked = true;
      requestAnimationFrame(() => {
        asked = false;
        this.#scrolled();
      });
    };
    this.scroller.addEventListener("scroll", soon, { passive: true });
    this.bottom.addEventListener("click", () => this.toBottom());
    this.section.querySelector("[data-edge=older]").addEventListener("click", () => this.#more(true));
    this.section.querySelector("[data-edge=newer]").addEventListener("click", () => this.#more(false));
    document.addEventListener("selectionchange", () => {
      if (this.#unseen && this.#isMoving()) this.toBottom();
    });
  }
}
