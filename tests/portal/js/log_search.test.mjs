import assert from "node:assert/strict";
import { test } from "node:test";
import { Search, nextHit } from "../../../src/holdfast/server/portal/static/js/log_search.js";

// A log of 1000 lines of 10 bytes, of which every hundredth is a hit, answered 250 lines at a time.
function ask({ start, limit }) {
  const hits = [];
  const upto = Math.min(10000, start + 2500);
  for (let offset = Math.ceil(start / 1000) * 1000; offset < upto && hits.length < limit; offset += 1000) hits.push({ offset, line_offset: offset });
  const next = hits.length === limit ? hits.at(-1).offset + 10 : upto;
  return Promise.resolve({ hits, next: next >= 10000 ? null : next });
}

test("hits come in order, whichever part was searched first", async () => {
  const told = [];
  const search = new Search(ask, () => told.push([search.hits.length, search.searching]));
  await search.start({ q: "x" }, 5500);
  assert.deepEqual(search.hits, [0, 1000, 2000, 3000, 4000, 5000, 6000, 7000, 8000, 9000]);
  assert.deepEqual(told.at(-1), [10, false]);
  assert.ok(told.some(([hits, searching]) => hits > 0 && hits < 10 && searching)); // told while it went on
});

test("one hit is enough when only the first is wanted", async () => {
  let asked = 0;
  const search = new Search((question) => (asked++, ask(question)), () => {});
  await search.start({ q: "x" }, 0, true);
  assert.deepEqual([search.hits, asked], [[0], 1]);
});

test("a new search ends the old one", async () => {
  const search = new Search(ask, () => {});
  const old = search.start({ q: "x" }, 0);
  await search.start({ q: "y" }, 9500);
  await old;
  assert.equal(search.hits.length, 10);
  assert.equal(search.searching, false);
});

test("what is wrong with a pattern is told", async () => {
  const search = new Search(() => Promise.reject(new Error("no pattern")), () => {});
  await search.start({ q: "(" }, 0);
  assert.deepEqual([search.problem, search.searching], ["no pattern", false]);
  search.clear();
  assert.equal(search.problem, "");
});

test("going from hit to hit goes round", () => {
  const hits = [10, 20, 30];
  assert.deepEqual([nextHit(hits, 10, false), nextHit(hits, 30, false), nextHit(hits, 10, true), nextHit(hits, 25, true), nextHit([], 0, false)], [20, 10, 30, 20, null]);
});
