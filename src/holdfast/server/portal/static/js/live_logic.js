// What a live line decides, without the line: how long to wait, and how messages add up.

const FIRST = 500; // ms
const LONGEST = 30000;

/** Waits that double, each shortened by chance, so that many pages do not come back in the same moment. */
export class Backoff {
  constructor(chance = Math.random) {
    this.chance = chance;
    this.reset();
  }

  reset() {
    this.wait = FIRST;
  }

  next() {
    const wait = this.wait;
    this.wait = Math.min(LONGEST, wait * 2);
    return wait * (0.5 + this.chance() / 2);
  }
}

/** Two messages as one. */
export function merge(one, other) {
  if (!one) return other;
  if (one.all || other.all) return { all: true };
  const waiting = Boolean(one.waiting || other.waiting);
  return { jobs: [...new Set([...one.jobs, ...other.jobs])], ...(waiting && { waiting }) };
}

/**
 * Runs `work` soon after it was asked for, however often that was, one run at a time. Between two of them lies at least
 * `least` ms, and more where the work itself is slow: `work` may return a promise.
 */
export class Pace {
  constructor(work, { least = 1000, share = 5, now = () => performance.now(), later = (work, wait) => setTimeout(work, wait) } = {}) {
    Object.assign(this, { work, least, share, now, later });
    this.free = 0; // when the next may begin
    this.asked = false;
    this.busy = false;
  }

  ask() {
    if (this.asked) return;
    this.asked = true;
    if (!this.busy) this.plan();
  }

  plan() {
    this.later(() => this.run(), Math.max(0, this.free - this.now()));
  }

  async run() {
    this.asked = false;
    this.busy = true;
    const began = this.now();
    try {
      await this.work();
    } finally {
      const ended = this.now();
      this.free = Math.max(began + this.least, ended + this.share * (ended - began));
      this.busy = false;
      if (this.asked) this.plan();
    }
  }
}
