// A line into a task: bytes go in and come out of it; words about it, as JSON, go beside. See server/rest/paced.py.
import { csrf } from "./htmx.js";
import { toLogin } from "./live.js";

const LOGGED_OUT = 4401;
const MOST = 32 * 1024; // bytes of one message; the server takes no larger ones
const TELL_AFTER = 64 * 1024; // bytes shown, of which the server has not been told: it sends only a little ahead

export class TaskLine {
  #socket = null;
  #closed = false;
  #taken = 0;
  #told = 0;

  /**
   * `heard` has data(bytes, taken), which calls taken() once they are shown; said(words); refused(why); closed(). `first`
   * is what the server is told at once, if anything. A line is opened once: whoever comes back opens another.
   */
  constructor(job, address, heard, first = null) {
    this.heard = heard;
    this.first = first;
    this.#open(job, address).catch((error) => this.#fail({ message: String(error.message ?? error) }));
  }

  // A page cannot send its login along with a socket: it asks for a ticket, and shows that.
  async #open(job, address) {
    const answer = await fetch(`/api/v1/jobs/${job}/tickets`, { method: "POST", headers: { "X-CSRF-Token": csrf(), Accept: "application/json" } });
    if (answer.status === 401) return toLogin();
    const words = await answer.json();
    if (!answer.ok) return this.#fail(words.error);
    if (this.#closed) return;
    const url = new URL(address, location.href);
    url.protocol = location.protocol.replace("http", "ws");
    url.searchParams.set("ticket", words.ticket);
    this.#listen(new WebSocket(url));
  }

  #listen(socket) {
    this.#socket = socket;
    socket.binaryType = "arraybuffer";
    socket.onopen = () => this.first && this.say(this.first);
    socket.onmessage = ({ data }) => this.#hear(data);
    socket.onclose = ({ code }) => this.#end(code);
  }

  #hear(data) {
    if (this.#closed) return;
    if (typeof data === "string") return this.#said(JSON.parse(data));
    this.heard.data(new Uint8Array(data), () => this.#take(data.byteLength));
  }

  // From the first words on the server is told what was shown, and then sends no more than that can keep up with.
  #said(words) {
    if (words.entered) this.say({ taken: 0 });
    if (words.error === undefined) this.heard.said(words);
    else if (words.code === "not_logged_in") this.#end(LOGGED_OUT);
    else this.#fail({ ...words, message: words.error, message_data: words.error_data });
  }

  #take(count) {
    this.#taken += count;
    if (this.#taken - this.#told < TELL_AFTER) return;
    this.#told = this.#taken;
    this.say({ taken: this.#taken });
  }

  async #fail(error) {
    if (this.#closed) return;
    this.#closed = true;
    this.heard.refused(await inOurWords(error));
  }

  #end(code) {
    if (this.#closed) return;
    this.#closed = true;
    if (code === LOGGED_OUT) toLogin();
    else this.heard.closed();
  }

  get isOpen() {
    return this.#socket?.readyState === WebSocket.OPEN;
  }

  /** Bytes, or text as UTF-8. What nobody takes any more is dropped. */
  send(data) {
    const bytes = typeof data === "string" ? new TextEncoder().encode(data) : data;
    for (let at = 0; this.isOpen && at < bytes.length; at += MOST) this.#socket.send(bytes.subarray(at, at + MOST));
  }

  say(words) {
    if (this.isOpen) this.#socket.send(JSON.stringify(words));
  }

  close() {
    this.#closed = true;
    this.#socket?.close();
  }
}

// The id and the arguments of a message, from which it is translated, or its English text.
function asText(text, data) {
  return data ? JSON.stringify(data) : (text ?? "");
}

// The API speaks English: the page is asked for its own language.
async function inOurWords({ message, message_data, hint, hint_data }) {
  try {
    const address = `/told?${new URLSearchParams({ message: asText(message, message_data), hint: asText(hint, hint_data) })}`;
    const answer = await fetch(address, { headers: { Accept: "application/json", "HX-Request": "true" } });
    return (await answer.json()).text;
  } catch {
    return [message, hint].filter(Boolean).join(". ");
  }
}
