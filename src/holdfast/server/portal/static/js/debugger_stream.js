// What paipdb sends to whoever asks for events: text as pdb writes it, and before each prompt a line that begins with
// the byte 1E and tells as JSON where the program stands. What a program prints may look like anything: lines that are
// no such thing are text.

const MARK = "\x1e";
const LONGEST = 1 << 20; // characters of one event; more is none

export class DebuggerStream {
  #decoder = new TextDecoder();
  #rest = ""; // an event whose end has not come

  /** `heard` has text(string) and event(object). */
  constructor(heard) {
    this.heard = heard;
  }

  add(bytes) {
    let text = this.#rest + this.#decoder.decode(bytes, { stream: true });
    this.#rest = "";
    while (text) {
      const mark = text.indexOf(MARK);
      if (mark < 0) return this.heard.text(text);
      if (mark > 0) this.heard.text(text.slice(0, mark));
      const end = text.indexOf("\n", mark);
      if (end < 0) return this.#keep(text.slice(mark));
      this.#line(text.slice(mark + 1, end));
      text = text.slice(end + 1);
    }
  }

  #keep(text) {
    if (text.length > LONGEST) this.heard.text(text.slice(1));
    else this.#rest = text;
  }

  #line(line) {
    const event = readEvent(line);
    if (event) this.heard.event(event);
    else this.heard.text(`${line}\n`);
  }
}

function readEvent(line) {
  try {
    const found = JSON.parse(line);
    return typeof found?.event === "string" ? found : null;
  } catch {
    return null;
  }
}

/** Where a prompt stands, with nothing in it that is not as it should be: { file, line, function, stack, index, lines }. */
export function placeOf(event) {
  const stack = (Array.isArray(event.stack) ? event.stack : []).map(frame);
  const [first, lines] = Array.isArray(event.source) ? event.source : [1, []];
  const source = (Array.isArray(lines) ? lines : []).map((text, at) => ({ number: whole(first) + at, text: String(text) }));
  return { ...frame(event), stack, index: whole(event.index), source };
}

function frame(found) {
  return { file: String(found?.file ?? ""), line: whole(found?.line), function: String(found?.function ?? "") };
}

function whole(value) {
  return Number.isSafeInteger(value) ? value : 0;
}

export function baseName(file) {
  return file.slice(file.lastIndexOf("/") + 1);
}
