// A WebSocket to /live/log that streams new bytes of a log. It reconnects after failures and continues at the current offset.
import { redirectToLogin } from "./live.js";
import { Backoff } from "./live_logic.js";

const LOGGED_OUT = 4401;
const REFUSED = 4403;

export class LogStream {
  #socket = null;
  #backoff = new Backoff();
  #timer = 0;
  #ended = false;

  /**
   * `log`: { job, task, attempt, try, stream }. `handlers` has getOffset() (where to continue), onData(offset, bytes),
   * onSkip(start, end), onWaiting(), onEnd(message), onConnection(isOpen) and onRefused().
   */
  constructor(log, handlers) {
    this.log = log;
    this.handlers = handlers;
    addEventListener("online", () => this.#reconnect());
    addEventListener("pageshow", () => this.#reconnect());
    addEventListener("pagehide", () => this.#socket?.close());
    document.addEventListener("visibilitychange", () => this.#reconnect());
  }

  open() {
    clearTimeout(this.#timer);
    const address = new URL("/live/log", location.href);
    address.protocol = location.protocol.replace("http", "ws");
    for (const [name, value] of Object.entries({ ...this.log, start: this.handlers.getOffset() })) address.searchParams.set(name, value);
    const socket = new WebSocket(address);
    socket.binaryType = "arraybuffer";
    socket.onopen = () => {
      this.#backoff.reset();
      this.handlers.onConnection(true);
    };
    socket.onmessage = (event) => this.#handleMessage(socket, event.data);
    socket.onclose = (event) => this.#handleClose(event.code);
    this.#socket = socket;
  }

  #handleMessage(socket, data) {
    if (typeof data !== "string") {
      const offset = Number(new DataView(data).getBigUint64(0));
      this.handlers.onData(offset, new Uint8Array(data, 8));
      socket.send(JSON.stringify({ seen: offset + data.byteLength - 8 }));
      return;
    }
    const message = JSON.parse(data);
    if (message.kind === "waiting") this.handlers.onWaiting();
    if (message.kind === "skip") {
      this.handlers.onSkip(message.start, message.end);
      socket.send(JSON.stringify({ seen: message.end }));
    }
    if (message.kind === "end") {
      this.#ended = true;
      this.handlers.onEnd(message);
    }
  }

  #handleClose(code) {
    this.#socket = null;
    if (this.#ended) return;
    if (code === LOGGED_OUT) return redirectToLogin();
    if (code === REFUSED) {
      this.#ended = true;
      return this.handlers.onRefused();
    }
    this.handlers.onConnection(false);
    this.#timer = setTimeout(() => this.open(), this.#backoff.nextInterval());
  }

  #reconnect() {
    if (!this.#ended && !this.#socket && !document.hidden) this.open();
  }
}
