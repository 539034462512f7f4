// A line to /live/log: the bytes of a log as they come. Opened again whenever it breaks, from where the page has got to.
import { toLogin } from "./live.js";
import { Backoff } from "./live_logic.js";

const LOGGED_OUT = 4401;
const REFUSED = 4403;

export class Follow {
  #socket = null;
  #backoff = new Backoff();
  #timer = 0;
  #over = false;

  /**
   * `log`: { job, task, attempt, try, stream }. `heard` has from() (where to go on), data(offset, bytes), skip(start, end),
   * waiting(), end(message), line(isOpen), refused().
   */
  constructor(log, heard) {
    this.log = log;
    this.heard = heard;
    addEventListener("online", () => this.#wake());
    addEventListener("pageshow", () => this.#wake());
    addEventListener("pagehide", () => this.#socket?.close());
    document.addEventListener("visibilitychange", () => this.#wake());
  }

  open() {
    clearTimeout(this.#timer);
    const address = new URL("/live/log", location.href);
    address.protocol = location.protocol.replace("http", "ws");
    for (const [name, value] of Object.entries({ ...this.log, start: this.heard.from() })) address.searchParams.set(name, value);
    const socket = new WebSocket(address);
    socket.binaryType = "arraybuffer";
    socket.onopen = () => {
      this.#backoff.reset();
      this.heard.line(true);
    };
    socket.onmessage = (event) => this.#hear(socket, event.data);
    socket.onclose = (event) => this.#closed(event.code);
    this.#socket = socket;
  }

  #hear(socket, data) {
    if (typeof data !== "string") {
      const offset = Number(new DataView(data).getBigUint64(0));
      this.heard.data(offset, new Uint8Array(data, 8));
      socket.send(JSON.stringify({ seen: offset + data.byteLength - 8 }));
      return;
    }
    const message = JSON.parse(data);
    if (message.kind === "waiting") this.heard.waiting();
    if (message.kind === "skip") {
      this.heard.skip(message.start, message.end);
      socket.send(JSON.stringify({ seen: message.end }));
    }
    if (message.kind === "end") {
      this.#over = true;
      this.heard.end(message);
    }
  }

  #closed(code) {
    this.#socket = null;
    if (this.#over) return;
    if (code === LOGGED_OUT) return toLogin();
    if (code === REFUSED) {
      this.#over = true;
      return this.heard.refused();
    }
    this.heard.line(false);
    this.#timer = setTimeout(() => this.open(), this.#backoff.next());
  }

  #wake() {
    if (!this.#over && !this.#socket && !document.hidden) this.open();
  }
}
