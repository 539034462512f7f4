import assert from "node:assert/strict";
import { test } from "node:test";
import { Backoff, Throttle, mergeMessages } from "../../../src/holdfast/server/portal/static/js/live_logic.js";

test("intervals double up to 30 s and reset after a success", () => {
  const backoff = new Backoff(() => 1);
  const waits = Array.from({ length: 9 }, () => backoff.nextInterval());
  assert.deepEqual(waits.slice(0, 3), [500, 1000, 2000]);
  assert.equal(Math.max(...waits), 30000);
  backoff.reset();
  assert.equal(backoff.nextInterval(), 500);
});

test("randomness shortens an interval by half at most", () => {
  assert.equal(new Backoff(() => 0).nextInterval(), 250);
});

test("messages are merged", () => {
  assert.deepEqual(mergeMessages(null, { jobs: ["a"] }), { jobs: ["a"] });
  assert.deepEqual(mergeMessages({ jobs: ["a", "b"] }, { jobs: ["b", "c"] }), { jobs: ["a", "b", "c"] });
  assert.deepEqual(mergeMessages({ jobs: ["a"] }, { jobs: [], waiting: true }), { jobs: ["a"], waiting: true });
  assert.deepEqual(mergeMessages({ all: true }, { jobs: ["a"] }), { all: true });
});

// A manual clock.
function createClock() {
  const at = { now: 0, planned: [] };
  const options = { now: () => at.now, setTimer: (work, wait) => at.planned.push([at.now + wait, work]) };
  const run = async (until) => {
    while (at.planned.length && at.planned[0][0] <= until) {
      const [time, work] = at.planned.shift();
      at.now = Math.max(at.now, time);
      await work();
    }
    at.now = until;
  };
  return { options, run };
}

test("a burst is one run, and the next starts a second later", async () => {
  const { options, run } = createClock();
  const runs = [];
  const throttle = new Throttle(() => runs.push(options.now()), options);
  for (let n = 0; n < 100; n++) throttle.request();
  await run(10);
  for (let n = 0; n < 100; n++) throttle.request();
  await run(5000);
  assert.deepEqual(runs, [0, 1000]);
});

test("a request during a run causes another run", async () => {
  const { options, run } = createClock();
  const runs = [];
  const throttle = new Throttle(() => {
    runs.push(options.now());
    if (runs.length === 1) throttle.request();
  }, options);
  throttle.request();
  await run(5000);
  assert.deepEqual(runs, [0, 1000]);
});

test("failing work does not stop the throttle", async () => {
  const { options, run } = createClock();
  let runs = 0;
  const throttle = new Throttle(() => {
    runs++;
    throw new Error("no");
  }, options);
  throttle.request();
  await assert.rejects(run(10));
  throttle.request();
  await assert.rejects(run(5000));
  assert.equal(runs, 2);
});
