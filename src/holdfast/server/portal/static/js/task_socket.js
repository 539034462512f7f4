// A WebSocket into a task: binary messages carry the bytes in both directions; control messages are JSON. See
// server/rest/sockets/flow_control.py.
import { getCsrfToken } from "./htmx.js";
import { redirectToLogin } from "./live.js";

const LOGGED_OUT = 4401;
const MAX_MESSAGE_SIZE = 32 * 1024; // bytes; the server accepts no larger messages
const ACKNOWLEDGE_SIZE = 64 * 1024; // bytes shown between two acknowledgements; the server sends only a little ahead

export class TaskSocket {
  #socket = null;
  #closed = false;
  #shown = 0; // bytes
  #acknowledged = 0; // bytes

  /**
   * `handlers` has onData(bytes, acknowledge), which calls acknowledge() once they are shown; onControl(message);
   * onRefused(reason); onClosed(). `first` is an optional control message to send first. A socket is opened once; to
   * reconnect, create another.
   */
  constructor(job, address, handlers, first = null) {
    this.handlers = handlers;
    this.first = first;
    this.#open(job, address).catch((error) => this.#refuse({ message: String(error.message ?? error) }));
  }

  // The socket does not accept the session cookie: it needs a ticket.
  async #open(job, address) {
    const response = await fetch(`/api/v1/jobs/${job}/tickets`, { method: "POST", headers: { "X-CSRF-Token": getCsrfToken(), Accept: "application/json" } });
    if (response.status === 401) return redirectToLogin();
    const content = await response.json();
    if (!response.ok) return this.#refuse(content.error);
    if (this.#closed) return;
    const url = new URL(address, location.href);
    url.protocol = location.protocol.replace("http", "ws");
    url.searchParams.set("ticket", content.ticket);
    this.#listen(new WebSocket(url));
  }

  #listen(socket) {
    this.#socket = socket;
    socket.binaryType = "arraybuffer";
    socket.onopen = () => this.first && this.sendControl(this.first);
    socket.onmessage = ({ data }) => this.#handleMessage(data);
    socket.onclose = ({ code }) => this.#handleClose(code);
  }

  #handleMessage(data) {
    if (this.#closed) return;
    if (typeof data === "string") return this.#handleControl(JSON.parse(data));
    this.handlers.onData(new Uint8Array(data), () => this.#acknowledge(data.byteLength));
  }

  // The first acknowledgement enables flow control on the server.
  #handleControl(message) {
    if (message.entered) this.sendControl({ taken: 0 });
    if (message.error === undefined) this.handlers.onControl(message);
    else if (message.code === "not_logged_in") this.#handleClose(LOGGED_OUT);
    else this.#refuse({ ...message, message: message.error, message_data: message.error_data });
  }

  #acknowledge(count) {
    this.#shown += count;
    if (this.#shown - this.#acknowledged < ACKNOWLEDGE_SIZE) return;
    this.#acknowledged = this.#shown;
    this.sendControl({ taken: this.#shown });
  }

  async #refuse(error) {
    if (this.#closed) return;
    this.#closed = true;
    this.handlers.onRefused(await translateError(error));
  }

  #handleClose(code) {
    if (this.#closed) return;
    this.#closed = true;
    if (code === LOGGED_OUT) redirectToLogin();
    else this.handlers.onClosed();
  }

  get isOpen() {
    return this.#socket?.readyState === WebSocket.OPEN;
  }

  /** Send bytes, or text as UTF-8. Does nothing after the socket was closed. */
  send(data) {
    const bytes = typeof data === "string" ? new TextEncoder().encode(data) : data;
    for (let at = 0; this.isOpen && at < bytes.length; at += MAX_MESSAGE_SIZE) this.#socket.send(bytes.subarray(at, at + MAX_MESSAGE_SIZE));
  }

  sendControl(message) {
    if (this.isOpen) this.#socket.send(JSON.stringify(message));
  }

  close() {
    this.#closed = true;
    this.#socket?.close();
  }
}

// Returns the id and the arguments of a message, from which the server translates it, or its English text.
function encodeMessage(text, data) {
  return data ? JSON.stringify(data) : (text ?? "");
}

// The API answers in English: the portal translates its errors.
async function translateError({ message, message_data, hint, hint_data }) {
  try {
    const address = `/translation?${new URLSearchParams({ message: encodeMessage(message, message_data), hint: encodeMessage(hint, hint_data) })}`;
    const response = await fetch(address, { headers: { Accept: "application/json", "HX-Request": "true" } });
    return (await response.json()).text;
  } catch {
    return [message, hint].filter(Boolean).join(". ");
  }
}
