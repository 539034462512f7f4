// Parses what paipdb sends to a client that asked for events: text as pdb writes it, and before each prompt a line that
// begins with the byte 1E and contains the program's position as JSON. Lines that only look like events are text.

const EVENT_MARK = "\x1e";
const MAX_EVENT_SIZE = 1 << 20; // characters of one event; anything longer is text

export class DebuggerStream {
  #decoder = new TextDecoder();
  #partial = ""; // an incomplete event

  /** `handlers` has onText(string) and onEvent(object). */
  constructor(handlers) {
    this.handlers = handlers;
  }

  addBytes(bytes) {
    let text = this.#partial + this.#decoder.decode(bytes, { stream: true });
    this.#partial = "";
    while (text) {
      const mark = text.indexOf(EVENT_MARK);
      if (mark < 0) return this.handlers.onText(text);
      if (mark > 0) this.handlers.onText(text.slice(0, mark));
      const end = text.indexOf("\n", mark);
      if (end < 0) return this.#savePartial(text.slice(mark));
      this.#handleLine(text.slice(mark + 1, end));
      text = text.slice(end + 1);
    }
  }

  #savePartial(text) {
    if (text.length > MAX_EVENT_SIZE) this.handlers.onText(text.slice(1));
    else this.#partial = text;
  }

  #handleLine(line) {
    const event = parseEvent(line);
    if (event) this.handlers.onEvent(event);
    else this.handlers.onText(`${line}\n`);
  }
}

function parseEvent(line) {
  try {
    const found = JSON.parse(line);
    return typeof found?.event === "string" ? found : null;
  } catch {
    return null;
  }
}

/** Return the validated position of a prompt: { file, line, function, stack, index, source }. */
export function parsePosition(event) {
  const stack = (Array.isArray(event.stack) ? event.stack : []).map(parseFrame);
  const [first, lines] = Array.isArray(event.source) ? event.source : [1, []];
  const source = (Array.isArray(lines) ? lines : []).map((text, at) => ({ number: toInteger(first) + at, text: String(text) }));
  return { ...parseFrame(event), stack, index: toInteger(event.index), source };
}

function parseFrame(found) {
  return { file: String(found?.file ?? ""), line: toInteger(found?.line), function: String(found?.function ?? "") };
}

function toInteger(value) {
  return Number.isSafeInteger(value) ? value : 0;
}

export function baseName(file) {
  return file.slice(file.lastIndexOf("/") + 1);
}
