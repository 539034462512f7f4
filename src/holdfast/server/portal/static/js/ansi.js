// Parses the output of a program into runs of styled text: applies ANSI colours, removes all other control sequences, and
// makes invisible characters visible. Independent of the page and the log. Insert the text of a run only as text.
//
//   const { runs, style } = parseLine("\x1b[31mred\x1b[0m", PLAIN)     // style: initial style of the next line
//   run = { text, style, invisible }                                   // invisible: stands for an invisible character

export const PLAIN = Object.freeze({ fg: null, bg: null, bold: false, dim: false, italic: false, underline: false, strike: false, inverse: false });
export const MAX_RUNS = 500; // per line; the rest of the line has no colours
const MAX_COLUMN = 20000; // columns; limit of cursor movements

// eslint-disable-next-line no-control-regex
const CONTROL = /\x1b\[([0-?]*)[ -/]*([@-~])|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b[ -/]*[0-~]?|[\r\b]/gu;
// Characters that change how others are displayed (direction, joining) or that are invisible. A joiner between two
// non-ASCII letters is part of their spelling.
const INVISIBLE =
  /[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\u{e0000}-\u{e007f}]|(?<![^\x00-\x7f])[\u200c\u200d]|[\u200c\u200d](?![^\x00-\x7f])/gu; // eslint-disable-line no-control-regex

/** Parse one line without its line feed. `style` is its initial style. */
export function parseLine(text, style) {
  const line = text.endsWith("\r") ? text.slice(0, -1) : text;
  if (!/[\x1b\r\b]/u.test(line)) return { runs: revealInvisible([{ text: line, style }]), style }; // eslint-disable-line no-control-regex
  const cells = /[\r\b]|\x1b\[[0-?]*[ -/]*[CDGK]/u.test(line) ? new CellList() : new RunList(); // eslint-disable-line no-control-regex
  let at = 0;
  for (const found of line.matchAll(CONTROL)) {
    cells.write(line.slice(at, found.index), style);
    at = found.index + found[0].length;
    if (found[2] === "m") style = applySgr(style, found[1]);
    else cells.moveCursor(found[0], found[2], found[1]);
  }
  cells.write(line.slice(at), style);
  return { runs: revealInvisible(cells.toRuns()), style };
}

/** A line that is only appended to. */
class RunList {
  #runs = [];

  write(text, style) {
    if (!text) return;
    const last = this.#runs.at(-1);
    if (last && (last.style === style || this.#runs.length >= MAX_RUNS)) last.text += text;
    else this.#runs.push({ text, style });
  }

  moveCursor() {}

  toRuns() {
    return this.#runs;
  }
}

/** A line that is overwritten, for example by a progress bar: one cell per character. */
class CellList {
  #cells = [];
  #cursor = 0;
  #blanksLeft = 2 * MAX_COLUMN; // padding still allowed: limits the work for a line that repeatedly erases itself and jumps ahead

  write(text, style) {
    if (text) this.#padToCursor();
    for (const character of text) this.#cells[this.#cursor++] = { character, style };
  }

  #padToCursor() {
    while (this.#cells.length < this.#cursor && this.#blanksLeft-- > 0) this.#cells.push({ character: " ", style: PLAIN });
    this.#cursor = Math.min(this.#cursor, this.#cells.length);
  }

  moveCursor(control, letter, parameters) {
    const count = Math.min(MAX_COLUMN, Number.parseInt(parameters, 10) || 0);
    if (control === "\r") this.#cursor = 0;
    else if (control === "\b") this.#cursor = Math.max(0, this.#cursor - 1);
    else if (letter === "G") this.#cursor = Math.max(0, count - 1);
    else if (letter === "C") this.#cursor = Math.min(MAX_COLUMN, this.#cursor + (count || 1));
    else if (letter === "D") this.#cursor = Math.max(0, this.#cursor - (count || 1));
    else if (letter === "K") this.#eraseCells(count);
  }

  #eraseCells(which) {
    if (which === 0) this.#cells.length = Math.min(this.#cells.length, this.#cursor);
    else if (which === 2) this.#cells = [];
    else if (which === 1) this.#cells.fill({ character: " ", style: PLAIN }, 0, this.#cursor + 1);
  }

  toRuns() {
    const found = new RunList();
    for (const { character, style } of this.#cells) found.write(character, style);
    return found.toRuns();
  }
}

// -- colours

/** Apply the SGR codes in `parameters`, the text between ESC [ and m. */
export function applySgr(style, parameters) {
  const codes = parameters.split(";");
  let next = { ...style };
  for (let at = 0; at < codes.length; at++) {
    const parts = codes[at].split(":");
    const code = Number(parts[0] || 0);
    if (code === 38 || code === 48) {
      const [colour, used] = parts.length > 1 ? [parseColonColour(parts), 0] : parseSemicolonColour(codes, at);
      if (colour !== null) next[code === 38 ? "fg" : "bg"] = colour;
      at += used;
    } else if (code === 58 && parts.length === 1) {
      at += parseSemicolonColour(codes, at)[1]; // underline colour: skipped with its arguments
    } else {
      next = applySgrCode(next, code, parts[1]);
    }
  }
  return isSameStyle(next, PLAIN) ? PLAIN : isSameStyle(next, style) ? style : Object.freeze(next);
}

function applySgrCode(style, code, kind) {
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

/** 38;5;N and 38;2;R;G;B: return the colour and the number of codes it used. */
function parseSemicolonColour(codes, at) {
  if (codes[at + 1] === "5") return [resolvePaletteColour(codes[at + 2]), 2];
  if (codes[at + 1] === "2") return [parseRgb(codes.slice(at + 2, at + 5)), 4];
  return [null, 0];
}

/** 38:5:N, 38:2:R:G:B and 38:2:SPACE:R:G:B. */
function parseColonColour(parts) {
  if (parts[1] === "5") return resolvePaletteColour(parts[2]);
  if (parts[1] === "2") return parseRgb(parts.length > 5 ? parts.slice(3, 6) : parts.slice(2, 5));
  return null;
}

/** Numbers below 16 are colours of the theme; the others are fixed. */
function resolvePaletteColour(text) {
  const n = Number(text || 0);
  if (!Number.isInteger(n) || n < 0 || n > 255) return null;
  if (n < 16) return n;
  if (n >= 232) return formatHex([8 + (n - 232) * 10, 8 + (n - 232) * 10, 8 + (n - 232) * 10]);
  const level = (value) => (value ? 55 + value * 40 : 0);
  return formatHex([level(Math.floor((n - 16) / 36)), level(Math.floor((n - 16) / 6) % 6), level((n - 16) % 6)]);
}

function parseRgb(texts) {
  const values = texts.map((text) => Number(text || 0));
  return values.length === 3 && values.every((value) => Number.isInteger(value) && value >= 0 && value <= 255) ? formatHex(values) : null;
}

function formatHex(values) {
  return "#" + values.map((value) => value.toString(16).padStart(2, "0")).join("");
}

function isSameStyle(one, other) {
  return Object.keys(PLAIN).every((name) => one[name] === other[name]);
}

// -- invisible characters

function revealInvisible(runs) {
  return runs.flatMap((run) => (run.text.search(INVISIBLE) < 0 ? [run] : splitRun(run)));
}

function splitRun({ text, style }) {
  const found = [];
  let at = 0;
  for (const { 0: character, index } of text.matchAll(INVISIBLE)) {
    if (found.length >= MAX_RUNS) break;
    if (index > at) found.push({ text: text.slice(at, index), style });
    found.push({ text: formatCodePoint(character), style, invisible: true });
    at = index + character.length;
  }
  const rest = text.slice(at);
  if (rest) found.push({ text: rest.replace(INVISIBLE, formatCodePoint), style });
  return found;
}

function formatCodePoint(character) {
  return `⟨U+${character.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`;
}
