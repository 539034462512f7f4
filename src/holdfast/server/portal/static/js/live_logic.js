// Retry intervals, merging of messages and throttling for live pages. Independent of the WebSocket.

const FIRST_INTERVAL = 500; // ms
const MAX_INTERVAL = 30000; // ms

/** Retry intervals that double, each shortened at random, so that many pages do not reconnect at the same moment. */
export class Backoff {
  constructor(random = Math.random) {
    this.random = random;
    this.reset();
  }

  reset() {
    this.interval = FIRST_INTERVAL;
  }

  nextInterval() {
    const interval = this.interval;
    this.interval = Math.min(MAX_INTERVAL, interval * 2);
    return interval * (0.5 + this.random() / 2);
  }
}

/** Merge two messages into one. */
export function mergeMessages(one, other) {
  if (!one) return other;
  if (one.all || other.all) return { all: true };
  const waiting = Boolean(one.waiting || other.waiting);
  return { jobs: [...new Set([...one.jobs, ...other.jobs])], ...(waiting && { waiting }) };
}

/**
 * Runs `work` soon after a request, one run at a time; requests before a run starts are combined. Runs start at least
 * `minInterval` ms apart, and after slow work the pause is `loadFactor` times its duration. `work` may return a promise.
 */
export class Throttle {
  constructor(work, { minInterval = 1000, loadFactor = 5, now = () => performance.now(), setTimer = (work, interval) => setTimeout(work, interval) } = {}) {
    Object.assign(this, { work, minInterval, loadFactor, now, setTimer });
    this.nextStart = 0; // when the next run may start
    this.requested = false;
    this.busy = false;
  }

  request() {
    if (this.requested) return;
    this.requested = true;
    if (!this.busy) this.schedule();
  }

  schedule() {
    this.setTimer(() => this.runWork(), Math.max(0, this.nextStart - this.now()));
  }

  async runWork() {
    this.requested = false;
    this.busy = true;
    const started = this.now();
    try {
      await this.work();
    } finally {
      const ended = this.now();
      this.nextStart = Math.max(started + this.minInterval, ended + this.loadFactor * (ended - started));
      this.busy = false;
      if (this.requested) this.schedule();
    }
  }
}
