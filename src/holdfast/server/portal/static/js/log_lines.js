// Splits the bytes of a log into rows with their offsets, as they arrive. Memory is bounded: a long line is folded into
// several rows, and of a progress bar that rewrites its line only the last state is kept.

export const MAX_ROW_SIZE = 16 * 1024; // bytes
const LF = 10;
const CR = 13;
const decoder = new TextDecoder("utf-8", { ignoreBOM: true });

export class LineSplitter {
  #partial = new Uint8Array(0); // bytes of the incomplete line
  #start; // offset of the incomplete line

  /** `offset`: offset of the first byte in the log. */
  constructor(offset) {
    this.#start = offset;
    this.offset = offset; // offset after the last byte added
  }

  /** Add bytes and return the rows that are now complete: [{ start, end, text, isContinued }]. */
  addBytes(bytes) {
    this.offset += bytes.length;
    const data = concatBytes(this.#partial, bytes);
    const rows = [];
    let at = 0;
    for (let end = data.indexOf(LF, this.#partial.length); end >= 0; end = data.indexOf(LF, at)) {
      this.#addLine(rows, data.subarray(at, end), end + 1 - at);
      at = end + 1;
    }
    this.#partial = data.slice(at);
    if (this.#partial.length > MAX_ROW_SIZE) this.#shortenPartial(rows);
    return rows;
  }

  /** The incomplete line as a row; null if there is none. */
  get pending() {
    return this.offset > this.#start ? decodeRow(this.#start, this.offset, this.#partial) : null;
  }

  /** End the log and return the remaining rows. */
  finish() {
    const last = this.pending;
    this.#start = this.offset;
    this.#partial = new Uint8Array(0);
    return last ? [last] : [];
  }

  // `size`: length with the line feed, counted from the start of the kept bytes.
  #addLine(rows, line, size) {
    const end = this.#start + this.#dropped + size;
    let rest = line.length > MAX_ROW_SIZE ? getLastState(line) ?? line : line;
    while (rest.length > MAX_ROW_SIZE) rest = this.#foldRow(rows, rest);
    rows.push(decodeRow(this.#start, end, rest));
    this.#start = end;
    this.#dropped = 0;
  }

  #dropped = 0; // overwritten bytes of the incomplete line that are not kept

  #shortenPartial(rows) {
    const kept = getLastState(this.#partial);
    if (kept) {
      this.#dropped += this.#partial.length - kept.length;
      this.#partial = kept.slice();
      return;
    }
    let rest = this.#partial;
    while (rest.length > MAX_ROW_SIZE) rest = this.#foldRow(rows, rest);
    this.#partial = rest.slice();
  }

  #foldRow(rows, line) {
    const cut = findCharacterBoundary(line, MAX_ROW_SIZE);
    const end = this.#start + this.#dropped + cut;
    this.#dropped = 0;
    rows.push({ ...decodeRow(this.#start, end, line.subarray(0, cut)), isContinued: true });
    this.#start = end;
    return line.subarray(cut);
  }
}

/**
 * Return where the first line begins in bytes from the middle of a log: after a line feed, else after a carriage
 * return, else at a character boundary.
 */
export function findLineStart(bytes) {
  for (const mark of [LF, CR]) {
    const at = bytes.indexOf(mark) + 1;
    if (at > 0 && at < bytes.length) return at;
  }
  let at = 0;
  while (at < 3 && at < bytes.length && isContinuationByte(bytes[at])) at++;
  return at;
}

export function countLines(bytes) {
  let count = 0;
  for (let at = bytes.indexOf(LF); at >= 0; at = bytes.indexOf(LF, at + 1)) count++;
  return count;
}

function decodeRow(start, end, bytes) {
  return { start, end, text: decoder.decode(bytes), isContinued: false };
}

/**
 * Return the visible rest of an overwritten line: what follows its last carriage return. Null if that is too long for a
 * row, or if there is no carriage return.
 */
function getLastState(line) {
  const from = line.lastIndexOf(CR, line.length - 2) + 1;
  return from > 0 && line.length - from <= MAX_ROW_SIZE ? line.subarray(from) : null;
}

function findCharacterBoundary(bytes, count) {
  let cut = count;
  while (cut > count - 3 && isContinuationByte(bytes[cut])) cut--;
  return isContinuationByte(bytes[cut]) ? count : cut;
}

/** Whether this is a UTF-8 continuation byte. */
function isContinuationByte(byte) {
  return (byte & 0xc0) === 0x80;
}

function concatBytes(one, other) {
  if (!one.length) return other;
  const both = new Uint8Array(one.length + other.length);
  both.set(one);
  both.set(other, one.length);
  return both;
}
