// Bytes of a log, in pieces as they come -> rows, each with the offsets it stands for. Holds little, whatever comes: a
// line without end is folded into several rows, and of a progress bar that has rewritten its line for hours the last
// state is kept. Pure.

export const FOLD = 16 * 1024; // bytes of a row
const LF = 10;
const CR = 13;
const decoder = new TextDecoder("utf-8", { ignoreBOM: true });

export class Lines {
  #held = new Uint8Array(0); // of the line that is not complete
  #start; // where that line began

  /** `offset`: where in the log the first piece begins. */
  constructor(offset) {
    this.#start = offset;
    this.offset = offset; // what is before it was taken
  }

  /** The rows that are complete now: [{ start, end, text, goesOn }]. */
  take(bytes) {
    this.offset += bytes.length;
    const data = joined(this.#held, bytes);
    const rows = [];
    let at = 0;
    for (let end = data.indexOf(LF, this.#held.length); end >= 0; end = data.indexOf(LF, at)) {
      this.#add(rows, data.subarray(at, end), end + 1 - at);
      at = end + 1;
    }
    this.#held = data.slice(at);
    if (this.#held.length > FOLD) this.#shorten(rows);
    return rows;
  }

  /** The line that is not complete, as it looks now; null when there is none. */
  get pending() {
    return this.offset > this.#start ? row(this.#start, this.offset, this.#held) : null;
  }

  /** No more comes: what is left, as a row. */
  finish() {
    const last = this.pending;
    this.#start = this.offset;
    this.#held = new Uint8Array(0);
    return last ? [last] : [];
  }

  // `size`: with its line feed, and counted from where what is held begins.
  #add(rows, line, size) {
    const end = this.#start + this.#dropped + size;
    let rest = line.length > FOLD ? lastState(line) ?? line : line;
    while (rest.length > FOLD) rest = this.#fold(rows, rest);
    rows.push(row(this.#start, end, rest));
    this.#start = end;
    this.#dropped = 0;
  }

  #dropped = 0; // bytes of the line that is not complete, written over since

  #shorten(rows) {
    const kept = lastState(this.#held);
    if (kept) {
      this.#dropped += this.#held.length - kept.length;
      this.#held = kept.slice();
      return;
    }
    let rest = this.#held;
    while (rest.length > FOLD) rest = this.#fold(rows, rest);
    this.#held = rest.slice();
  }

  #fold(rows, line) {
    const cut = wholeCharacters(line, FOLD);
    const end = this.#start + this.#dropped + cut;
    this.#dropped = 0;
    rows.push({ ...row(this.#start, end, line.subarray(0, cut)), goesOn: true });
    this.#start = end;
    return line.subarray(cut);
  }
}

/** Where a line begins in bytes cut from the middle of a log: after a line feed, else where a line is rewritten, else at a
 * character. */
export function firstBreak(bytes) {
  for (const mark of [LF, CR]) {
    const at = bytes.indexOf(mark) + 1;
    if (at > 0 && at < bytes.length) return at;
  }
  let at = 0;
  while (at < 3 && at < bytes.length && isWithin(bytes[at])) at++;
  return at;
}

export function countLines(bytes) {
  let count = 0;
  for (let at = bytes.indexOf(LF); at >= 0; at = bytes.indexOf(LF, at + 1)) count++;
  return count;
}

function row(start, end, bytes) {
  return { start, end, text: decoder.decode(bytes), goesOn: false };
}

/** What is left of a line that was written over: what follows its last carriage return. Null where that is too long for a
 * row, or where there is none. */
function lastState(line) {
  const from = line.lastIndexOf(CR, line.length - 2) + 1;
  return from > 0 && line.length - from <= FOLD ? line.subarray(from) : null;
}

function wholeCharacters(bytes, count) {
  let cut = count;
  while (cut > count - 3 && isWithin(bytes[cut])) cut--;
  return isWithin(bytes[cut]) ? count : cut;
}

/** A byte of a character of several, but the first. */
function isWithin(byte) {
  return (byte & 0xc0) === 0x80;
}

function joined(one, other) {
  if (!one.length) return other;
  const both = new Uint8Array(one.length + other.length);
  both.set(one);
  both.set(other, one.length);
  return both;
}
