import assert from "node:assert/strict";
import { test } from "node:test";
import { LogSearch, findNextHit } from "../../../src/holdfast/server/portal/static/js/log_search.js";

// A log of 1000 lines of 10 bytes, of which every hundredth is a hit, answered 250 lines at a time.
function ask({ start, limit }) {
  const hits = [];
  const upto = Math.min(10000, start + 2500);
  for (let offset = Math.ceil(start / 1000) * 1000; offset < upto && hits.length < limit; offset += 1000) hits.push({ offset, line_offset: offset });
  const next = hits.length === limit ? hits.at(-1).offset + 10 : upto;
  return Promise.resolve({ hits, next: next >= 10000 ? null : next });
}

test("hits come in order, whichever part was searched first", async () => {
  const states = [];
  const search = new LogSearch(ask, () => states.push([search.hits.length, search.searching]));
  await search.start({ q: "x" }, 5500);
  assert.deepEqual(search.hits, [0, 1000, 2000, 3000, 4000, 5000, 6000, 7000, 8000, 9000]);
  assert.deepEqual(states.at(-1), [10, false]);
  assert.ok(states.some(([hits, searching]) => hits > 0 && hits < 10 && searching)); // reported during the search
});

test("one hit is enough when only the first is wanted", async () => {
  let asked = 0;
  const search = new LogSearch((question) => (asked++, ask(question)), () => {});
  await search.start({ q: "x" }, 0, true);
  assert.deepEqual([search.hits, asked], [[0], 1]);
});

test("a new search ends the old one", async () => {
  const search = new LogSearch(ask, () => {});
  const old = search.start({ q: "x" }, 0);
  await search.start({ q: "y" }, 9500);
  await old;
  assert.equal(search.hits.length, 10);
  assert.equal(search.searching, false);
});

test("an invalid pattern is reported", async () => {
  const search = new LogSearch(() => Promise.reject(new Error("no pattern")), () => {});
  await search.start({ q: "(" }, 0);
  assert.deepEqual([search.problem, search.searching], ["no pattern", false]);
  search.clear();
  assert.equal(search.problem, "");
});

test("navigation between hits wraps around", () => {
  const hits = [10, 20, 30];
  assert.deepEqual([findNextHit(hits, 10, false), findNextHit(hits, 30, false), findNextHit(hits, 10, true), findNextHit(hits, 25, true), findNextHit([], 0, false)], [20, 10, 30, 20, null]);
});
