// A WebSocket on which the server announces changes. It reconnects after failures and continues after the last message
// it received. While the page is hidden, messages are deferred.
import { showAttention } from "./attention.js";
import { Backoff, mergeMessages } from "./live_logic.js";

const CHECK_INTERVAL = 15000; // ms; after a sleep of the computer, the socket may be dead without an event
const SLEEP_TIMEOUT = 60000; // ms between two checks after which the computer is assumed to have slept
const LOGGED_OUT = 4401;
const RELOGIN_INTERVAL = 1500; // ms; a password change ends this session and starts another with a response still on its way

/**
 * openLiveSocket("/live/jobs", (message) => …): onMessage gets {jobs: [ids]} or {all: true}, either with waiting: true if
 * the reasons for waiting may have changed. Returns an object with close().
 */
export function openLiveSocket(path, onMessage) {
  socketCount += 1;
  const socket = new LiveSocket(path, onMessage);
  socket.open();
  return socket;
}

let socketCount = 0;

/** Receive attention notifications on pages without a live socket of their own. */
export function subscribeToAttention() {
  if (!socketCount && document.body.dataset.user) openLiveSocket("/live/jobs?job=none", () => {}).silent = true;
}

class LiveSocket {
  constructor(path, onMessage) {
    this.path = path;
    this.onMessage = onMessage;
    this.mark = document.body.dataset.mark ?? "";
    this.backoff = new Backoff();
    this.deferred = null; // messages received while the page was hidden
    this.closed = false;
    this.silent = false; // without the indicator in the bar
    this.loggedOut = false; // whether the server refused the last connection for lack of a login
    this.checkedAt = Date.now();
    this.addListeners();
  }

  addListeners() {
    this.checkTimer = setInterval(() => this.checkSocket(), CHECK_INTERVAL);
    this.onCheck = () => this.checkSocket();
    document.addEventListener("visibilitychange", this.onCheck);
    window.addEventListener("online", this.onCheck);
    window.addEventListener("pageshow", this.onCheck);
    window.addEventListener("pagehide", () => this.socket?.close());
  }

  open() {
    clearTimeout(this.retryTimer);
    this.retryTimer = 0;
    const address = new URL(this.path, location.href);
    address.protocol = location.protocol.replace("http", "ws");
    if (this.mark) address.searchParams.set("since", this.mark);
    const socket = new WebSocket(address);
    this.socket = socket;
    socket.onopen = () => this.handleOpen(socket);
    socket.onmessage = (event) => this.handleMessage(JSON.parse(event.data));
    socket.onclose = (event) => this.handleClose(socket, event.code);
  }

  handleOpen(socket) {
    if (socket !== this.socket) return;
    this.backoff.reset();
    if (!this.silent) showConnection(true);
  }

  handleMessage(message) {
    this.mark = message.mark ?? this.mark;
    if (message.attention) showAttention(message.attention);
    if (document.hidden) this.deferred = mergeMessages(this.deferred, message);
    else this.onMessage(message);
  }

  handleClose(socket, code) {
    if (socket !== this.socket || this.closed) return;
    this.socket = null;
    if (!this.silent) showConnection(false);
    if (code === LOGGED_OUT && this.loggedOut) return redirectToLogin();
    this.loggedOut = code === LOGGED_OUT;
    this.retryTimer = setTimeout(() => this.open(), this.loggedOut ? RELOGIN_INTERVAL : this.backoff.nextInterval());
  }

  // Runs regularly, when the page becomes visible, and when the network is back.
  checkSocket() {
    const slept = Date.now() - this.checkedAt > SLEEP_TIMEOUT;
    this.checkedAt = Date.now();
    if (document.hidden || this.closed) return;
    if (slept) this.dropSocket();
    if (!this.socket && !this.loggedOut) this.open();
    if (this.deferred) {
      const deferred = this.deferred;
      this.deferred = null;
      this.onMessage(deferred);
    }
  }

  dropSocket() {
    const old = this.socket;
    this.socket = null;
    old?.close();
  }

  close() {
    this.closed = true;
    clearInterval(this.checkTimer);
    clearTimeout(this.retryTimer);
    document.removeEventListener("visibilitychange", this.onCheck);
    this.dropSocket();
  }
}

export function redirectToLogin() {
  location.assign(`/login?next=${encodeURIComponent(location.pathname + location.search)}`);
}

// Updates the connection indicator in the bar, if the page has one.
function showConnection(on) {
  const indicator = document.getElementById("live");
  if (!indicator) return;
  indicator.hidden = false;
  indicator.dataset.live = on ? "on" : "off";
}
