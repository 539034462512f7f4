// What a program prints, as runs of text with a style: colours as terminals know them, everything else of their control
// language swallowed, and what would deceive the eye made visible. Pure: no page, no log. The text of a run is only ever
// put into a page as text.
//
//   const { runs, style } = readLine("\x1b[31mred\x1b[0m", PLAIN)     // style: how the next line begins
//   run = { text, style, odd }                                        // odd: stands for a character that is not seen

export const PLAIN = Object.freeze({ fg: null, bg: null, bold: false, dim: false, italic: false, underline: false, strike: false, inverse: false });
export const MAX_RUNS = 500; // of a line; what is left of it has no colours
const WIDEST = 20000; // columns that a cursor can be sent to

// eslint-disable-next-line no-control-regex
const CONTROL = /\x1b\[([0-?]*)[ -/]*([@-~])|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b[ -/]*[0-~]?|[\r\b]/gu;
// Characters that change how others are shown (direction, joining), or that are not seen at all. A joiner between other
// letters than ASCII is part of how they are written.
const ODD =
  /[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\u{e0000}-\u{e007f}]|(?<![^\x00-\x7f])[\u200c\u200d]|[\u200c\u200d](?![^\x00-\x7f])/gu; // eslint-disable-line no-control-regex

/** One line without its line feed, and the style it begins with. */
export function readLine(text, style) {
  const line = text.endsWith("\r") ? text.slice(0, -1) : text;
  if (!/[\x1b\r\b]/u.test(line)) return { runs: showOdd([{ text: line, style }]), style }; // eslint-disable-line no-control-regex
  const cells = /[\r\b]|\x1b\[[0-?]*[ -/]*[CDGK]/u.test(line) ? new Cells() : new Runs(); // eslint-disable-line no-control-regex
  let at = 0;
  for (const found of line.matchAll(CONTROL)) {
    cells.write(line.slice(at, found.index), style);
    at = found.index + found[0].length;
    if (found[2] === "m") style = changeStyle(style, found[1]);
    else cells.move(found[0], found[2], found[1]);
  }
  cells.write(line.slice(at), style);
  return { runs: showOdd(cells.runs()), style };
}

/** Text that is only ever added to. */
class Runs {
  #runs = [];

  write(text, style) {
    if (!text) return;
    const last = this.#runs.at(-1);
    if (last && (last.style === style || this.#runs.length >= MAX_RUNS)) last.text += text;
    else this.#runs.push({ text, style });
  }

  move() {}

  runs() {
    return this.#runs;
  }
}

/** A line that is written over, as by progress bars: one cell per character. */
class Cells {
  #cells = [];
  #at = 0;
  #blanks = 2 * WIDEST; // that are still put in: a line that erases itself and jumps ahead again and again gets no more

  write(text, style) {
    if (text) this.#fill();
    for (const character of text) this.#cells[this.#at++] = { character, style };
  }

  #fill() {
    while (this.#cells.length < this.#at && this.#blanks-- > 0) this.#cells.push({ character: " ", style: PLAIN });
    this.#at = Math.min(this.#at, this.#cells.length);
  }

  move(control, letter, parameters) {
    const count = Math.min(WIDEST, Number.parseInt(parameters, 10) || 0);
    if (control === "\r") this.#at = 0;
    else if (control === "\b") this.#at = Math.max(0, this.#at - 1);
    else if (letter === "G") this.#at = Math.max(0, count - 1);
    else if (letter === "C") this.#at = Math.min(WIDEST, this.#at + (count || 1));
    else if (letter === "D") this.#at = Math.max(0, this.#at - (count || 1));
    else if (letter === "K") this.#erase(count);
  }

  #erase(which) {
    if (which === 0) this.#cells.length = Math.min(this.#cells.length, this.#at);
    else if (which === 2) this.#cells = [];
    else if (which === 1) this.#cells.fill({ character: " ", style: PLAIN }, 0, this.#at + 1);
  }

  runs() {
    const found = new Runs();
    for (const { character, style } of this.#cells) found.write(character, style);
    return found.runs();
  }
}

// -- colours

/** `parameters` as between ESC [ and m. */
export function changeStyle(style, parameters) {
  const codes = parameters.split(";");
  let next = { ...style };
  for (let at = 0; at < codes.length; at++) {
    const parts = codes[at].split(":");
    const code = Number(parts[0] || 0);
    if (code === 38 || code === 48) {
      const [colour, used] = parts.length > 1 ? [withColons(parts), 0] : withSemicolons(codes, at);
      if (colour !== null) next[code === 38 ? "fg" : "bg"] = colour;
      at += used;
    } else if (code === 58 && parts.length === 1) {
      at += withSemicolons(codes, at)[1]; // of the underline: swallowed with what belongs to it
    } else {
      next = changeOne(next, code, parts[1]);
    }
  }
  return same(next, PLAIN) ? PLAIN : same(next, style) ? style : Object.freeze(next);
}

function changeOne(style, code, kind) {
  if (code === 0) return { ...PLAIN };
  if (code === 1) style.bold = true;
  else if (code === 2) style.dim = true;
  else if (code === 3) style.italic = true;
  else if (code === 4) style.underline = kind !== "0";
  else if (code === 7) style.inverse = true;
  else if (code === 9) style.strike = true;
  else if (code === 21) style.underline = true;
  else if (code === 22) style.bold = style.dim = false;
  else if (code === 23) style.italic = false;
  else if (code === 24) style.underline = false;
  else if (code === 27) style.inverse = false;
  else if (code === 29) style.strike = false;
  else if (code >= 30 && code <= 37) style.fg = code - 30;
  else if (code === 39) style.fg = null;
  else if (code >= 40 && code <= 47) style.bg = code - 40;
  else if (code === 49) style.bg = null;
  else if (code >= 90 && code <= 97) style.fg = code - 82;
  else if (code >= 100 && code <= 107) style.bg = code - 92;
  return style;
}

/** 38;5;N and 38;2;R;G;B: the colour, and how many codes it took. */
function withSemicolons(codes, at) {
  if (codes[at + 1] === "5") return [oneOf256(codes[at + 2]), 2];
  if (codes[at + 1] === "2") return [mixed(codes.slice(at + 2, at + 5)), 4];
  return [null, 0];
}

/** 38:5:N, 38:2:R:G:B and 38:2:SPACE:R:G:B. */
function withColons(parts) {
  if (parts[1] === "5") return oneOf256(parts[2]);
  if (parts[1] === "2") return mixed(parts.length > 5 ? parts.slice(3, 6) : parts.slice(2, 5));
  return null;
}

/** A number below 16 is a colour of the theme; the others are fixed. */
function oneOf256(text) {
  const n = Number(text || 0);
  if (!Number.isInteger(n) || n < 0 || n > 255) return null;
  if (n < 16) return n;
  if (n >= 232) return hex([8 + (n - 232) * 10, 8 + (n - 232) * 10, 8 + (n - 232) * 10]);
  const level = (value) => (value ? 55 + value * 40 : 0);
  return hex([level(Math.floor((n - 16) / 36)), level(Math.floor((n - 16) / 6) % 6), level((n - 16) % 6)]);
}

function mixed(texts) {
  const values = texts.map((text) => Number(text || 0));
  return values.length === 3 && values.every((value) => Number.isInteger(value) && value >= 0 && value <= 255) ? hex(values) : null;
}

function hex(values) {
  return "#" + values.map((value) => value.toString(16).padStart(2, "0")).join("");
}

function same(one, other) {
  return Object.keys(PLAIN).every((name) => one[name] === other[name]);
}

// -- what is not seen

function showOdd(runs) {
  return runs.flatMap((run) => (run.text.search(ODD) < 0 ? [run] : split(run)));
}

function split({ text, style }) {
  const found = [];
  let at = 0;
  for (const { 0: character, index } of text.matchAll(ODD)) {
    if (found.length >= MAX_RUNS) break;
    if (index > at) found.push({ text: text.slice(at, index), style });
    found.push({ text: nameOf(character), style, odd: true });
    at = index + character.length;
  }
  const rest = text.slice(at);
  if (rest) found.push({ text: rest.replace(ODD, nameOf), style });
  return found;
}

function nameOf(character) {
  return `⟨U+${character.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`;
}
