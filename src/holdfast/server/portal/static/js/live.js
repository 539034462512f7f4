// A line to the server by which it tells what changed. It is opened again whenever it breaks, and goes on where it
// stopped; while nobody looks at the page, what comes is kept for later.
import { showCalls } from "./calls.js";
import { Backoff, merge } from "./live_logic.js";

const LOOK = 15000; // ms; a computer that slept wakes up with lines that lead nowhere
const SLEPT = 60000;
const LOGGED_OUT = 4401;
const ANOTHER = 1500; // ms; a new password ends this login, and brings another with the answer that is on its way

/**
 * connect("/live/jobs", (message) => …): onMessage gets {jobs: [ids]} or {all: true}, either with waiting: true where
 * why jobs wait may have changed. Returns what close() ends.
 */
export function connect(path, onMessage) {
  lines += 1;
  const line = new Line(path, onMessage);
  line.open();
  return line;
}

let lines = 0;

/** Pages that follow nothing are told, too, when a job of the reader's own calls for them. */
export function listenForCalls() {
  if (!lines && document.body.dataset.user) connect("/live/jobs?job=none", () => {}).quiet = true;
}

class Line {
  constructor(path, onMessage) {
    this.path = path;
    this.onMessage = onMessage;
    this.mark = document.body.dataset.mark ?? "";
    this.backoff = new Backoff();
    this.held = null; // came while nobody looked
    this.ended = false;
    this.quiet = false; // without the sign in the bar
    this.refused = false; // the last time, for want of a login
    this.looked = Date.now();
    this.listen();
  }

  listen() {
    this.timer = setInterval(() => this.look(), LOOK);
    this.onLook = () => this.look();
    document.addEventListener("visibilitychange", this.onLook);
    window.addEventListener("online", this.onLook);
    window.addEventListener("pageshow", this.onLook);
    window.addEventListener("pagehide", () => this.socket?.close());
  }

  open() {
    clearTimeout(this.waiting);
    this.waiting = 0;
    const address = new URL(this.path, location.href);
    address.protocol = location.protocol.replace("http", "ws");
    if (this.mark) address.searchParams.set("since", this.mark);
    const socket = new WebSocket(address);
    this.socket = socket;
    socket.onopen = () => this.opened(socket);
    socket.onmessage = (event) => this.hear(JSON.parse(event.data));
    socket.onclose = (event) => this.closed(socket, event.code);
  }

  opened(socket) {
    if (socket !== this.socket) return;
    this.backoff.reset();
    if (!this.quiet) show(true);
  }

  hear(message) {
    this.mark = message.mark ?? this.mark;
    if (message.calls) showCalls(message.calls);
    if (document.hidden) this.held = merge(this.held, message);
    else this.onMessage(message);
  }

  closed(socket, code) {
    if (socket !== this.socket || this.ended) return;
    this.socket = null;
    if (!this.quiet) show(false);
    if (code === LOGGED_OUT && this.refused) return toLogin();
    this.refused = code === LOGGED_OUT;
    this.waiting = setTimeout(() => this.open(), this.refused ? ANOTHER : this.backoff.next());
  }

  // The page is looked at again, the network is back, or time jumped.
  look() {
    const slept = Date.now() - this.looked > SLEPT;
    this.looked = Date.now();
    if (document.hidden || this.ended) return;
    if (slept) this.drop();
    if (!this.socket && !this.refused) this.open();
    if (this.held) {
      const held = this.held;
      this.held = null;
      this.onMessage(held);
    }
  }

  drop() {
    const old = this.socket;
    this.socket = null;
    old?.close();
  }

  close() {
    this.ended = true;
    clearInterval(this.timer);
    clearTimeout(this.waiting);
    document.removeEventListener("visibilitychange", this.onLook);
    this.drop();
  }
}

export function toLogin() {
  location.assign(`/login?next=${encodeURIComponent(location.pathname + location.search)}`);
}

// The sign in the bar, if there is one.
function show(on) {
  const sign = document.getElementById("live");
  if (!sign) return;
  sign.hidden = false;
  sign.dataset.live = on ? "on" : "off";
}
