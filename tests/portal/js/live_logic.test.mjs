import assert from "node:assert/strict";
import { test } from "node:test";
import { Backoff, Pace, merge } from "../../../src/holdfast/server/portal/static/js/live_logic.js";

test("waits double up to half a minute, and begin anew after a success", () => {
  const backoff = new Backoff(() => 1);
  const waits = Array.from({ length: 9 }, () => backoff.next());
  assert.deepEqual(waits.slice(0, 3), [500, 1000, 2000]);
  assert.equal(Math.max(...waits), 30000);
  backoff.reset();
  assert.equal(backoff.next(), 500);
});

test("chance shortens a wait by half at most", () => {
  assert.equal(new Backoff(() => 0).next(), 250);
});

test("messages add up, and everything stays everything", () => {
  assert.deepEqual(merge(null, { jobs: ["a"] }), { jobs: ["a"] });
  assert.deepEqual(merge({ jobs: ["a", "b"] }, { jobs: ["b", "c"] }), { jobs: ["a", "b", "c"] });
  assert.deepEqual(merge({ jobs: ["a"] }, { jobs: [], waiting: true }), { jobs: ["a"], waiting: true });
  assert.deepEqual(merge({ all: true }, { jobs: ["a"] }), { all: true });
});

// A clock by hand.
function desk() {
  const at = { now: 0, planned: [] };
  const options = { now: () => at.now, later: (work, wait) => at.planned.push([at.now + wait, work]) };
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

test("a burst is one run, and the next comes a second later", async () => {
  const { options, run } = desk();
  const runs = [];
  const pace = new Pace(() => runs.push(options.now()), options);
  for (let n = 0; n < 100; n++) pace.ask();
  await run(10);
  for (let n = 0; n < 100; n++) pace.ask();
  await run(5000);
  assert.deepEqual(runs, [0, 1000]);
});

test("what is asked for during a run is run once more", async () => {
  const { options, run } = desk();
  const runs = [];
  const pace = new Pace(() => {
    runs.push(options.now());
    if (runs.length === 1) pace.ask();
  }, options);
  pace.ask();
  await run(5000);
  assert.deepEqual(runs, [0, 1000]);
});

test("work that fails does not end it", async () => {
  const { options, run } = desk();
  let runs = 0;
  const pace = new Pace(() => {
    runs++;
    throw new Error("no");
  }, options);
  pace.ask();
  await assert.rejects(run(10));
  pace.ask();
  await assert.rejects(run(5000));
  assert.equal(runs, 2);
});
