import assert from "node:assert/strict";
import { test } from "node:test";
import { MAX_ROW_SIZE, LineSplitter, countLines, findLineStart } from "../../../src/holdfast/server/portal/static/js/log_lines.js";

const bytes = (text) => new TextEncoder().encode(text);

function all(data, pieces, start = 0) {
  const lines = new LineSplitter(start);
  const rows = [];
  for (let at = 0; at < data.length; at += pieces) rows.push(...lines.addBytes(data.subarray(at, at + pieces)));
  return [...rows, ...lines.finish()];
}

test("rows do not depend on how the bytes are split", () => {
  const data = bytes("one\n\ntwo 日本 👩‍🔬\r\nthree\rthree!\nlast");
  const whole = all(data, data.length, 100);
  for (const pieces of [1, 2, 3, 5, 7]) assert.deepEqual(all(data, pieces, 100), whole);
  assert.deepEqual(whole.map((row) => row.text), ["one", "", "two 日本 👩‍🔬\r", "three\rthree!", "last"]);
});

test("offsets follow each other without a gap", () => {
  const data = bytes("a\nbb\n" + "x".repeat(3 * MAX_ROW_SIZE) + "\n" + "é".repeat(MAX_ROW_SIZE) + "\ny\r".repeat(3) + "10%\r".repeat(MAX_ROW_SIZE) + "\nend");
  for (const pieces of [data.length, 1000, 65536]) {
    const rows = all(data, pieces, 7);
    assert.equal(rows[0].start, 7);
    rows.slice(1).forEach((row, n) => assert.equal(row.start, rows[n].end));
    assert.equal(rows.at(-1).end, 7 + data.length);
  }
});

test("a line of 10 MB is folded", () => {
  const data = new Uint8Array(10_000_000).fill(120);
  const rows = all(data, 65536);
  assert.equal(rows.length, Math.ceil(data.length / MAX_ROW_SIZE));
  assert.ok(rows.slice(0, -1).every((row) => row.isContinued && row.text.length === MAX_ROW_SIZE));
  assert.equal(rows.map((row) => row.text.length).reduce((a, b) => a + b), data.length);
});

test("folding cuts no character in two", () => {
  const data = bytes("a" + "日".repeat(MAX_ROW_SIZE));
  assert.ok(!all(data, 4096).some((row) => row.text.includes("\ufffd")));
});

test("of a progress bar that runs for hours the last state is left", () => {
  const lines = new LineSplitter(0);
  let taken = 0;
  for (let n = 0; n < 20000; n++) {
    const piece = bytes(`\r${n} of 20000 steps`);
    taken += piece.length;
    assert.deepEqual(lines.addBytes(piece), []);
  }
  assert.ok(lines.pending.text.endsWith("\r19999 of 20000 steps"));
  assert.ok(lines.pending.text.length <= MAX_ROW_SIZE);
  const [row] = lines.addBytes(bytes("\n"));
  assert.deepEqual([row.start, row.end], [0, taken + 1]);
});

test("a line that is not complete can be seen", () => {
  const lines = new LineSplitter(5);
  assert.equal(lines.pending, null);
  assert.deepEqual(lines.addBytes(bytes("one\ntw")).map((row) => row.text), ["one"]);
  assert.deepEqual(lines.pending, { start: 9, end: 11, text: "tw", isContinued: false });
  assert.deepEqual(lines.addBytes(bytes("o\n")).map((row) => [row.start, row.end, row.text]), [[9, 13, "two"]]);
  assert.equal(lines.pending, null);
  assert.deepEqual(lines.finish(), []);
});

test("invalid UTF-8 is shown as replacement characters", () => {
  assert.deepEqual(all(new Uint8Array([0xff, 0xfe, 0x41, 0x0a, 0xc3]), 1).map((row) => row.text), ["��A", "�"]);
});

test("where a line begins in the middle of a log", () => {
  assert.equal(findLineStart(bytes("half\nwhole\n")), 5);
  assert.equal(findLineStart(bytes("half\r50%\r60%")), 5);
  assert.equal(findLineStart(bytes("日本").subarray(1)), 2);
  assert.equal(findLineStart(bytes("whole\n")), 0);
  assert.equal(findLineStart(new Uint8Array(0)), 0);
});

test("lines are counted", () => {
  assert.equal(countLines(bytes("a\nb\n\nc")), 3);
});
