import assert from "node:assert/strict";
import { test } from "node:test";
import { DebuggerStream, baseName, parsePosition } from "../../../src/holdfast/server/portal/static/js/debugger_stream.js";

function parse(...pieces) {
  const found = [];
  const stream = new DebuggerStream({ onText: (text) => found.push(text), onEvent: (event) => found.push(event) });
  for (const piece of pieces) stream.addBytes(typeof piece === "string" ? new TextEncoder().encode(piece) : piece);
  return found;
}

test("events are separated from text", () => {
  assert.deepEqual(parse('> a.py\n\x1e{"event":"prompt","line":3}\n(Pdb) '), ["> a.py\n", { event: "prompt", line: 3 }, "(Pdb) "]);
});

test("an event may come in pieces, and so may a character", () => {
  const [one, two] = [new TextEncoder().encode("é").slice(0, 1), new TextEncoder().encode("é").slice(1)];
  assert.deepEqual(parse('a\x1e{"event":', '"running"}', "\nb"), ["a", { event: "running" }, "b"]);
  assert.equal(parse(one, two).join(""), "é");
});

test("what only looks like an event is text", () => {
  for (const line of ["", "nonsense", "[1]", "null", '{"event":7}', "{"]) assert.deepEqual(parse(`\x1e${line}\nrest`), [`${line}\n`, "rest"]);
});

test("an event without an end is text once it is too long for one", () => {
  const long = "x".repeat((1 << 20) + 1);
  assert.deepEqual(parse(`\x1e${long}`), [long]);
});

test("a position contains only valid values", () => {
  const event = { event: "prompt", file: "/w/train.py", line: 4, function: "work", stack: [{ file: 1, line: "x" }, null], index: 1, source: [3, ["a", 7]] };
  assert.deepEqual(parsePosition(event), {
    file: "/w/train.py", line: 4, function: "work", index: 1,
    stack: [{ file: "1", line: 0, function: "" }, { file: "", line: 0, function: "" }],
    source: [{ number: 3, text: "a" }, { number: 4, text: "7" }],
  });
  assert.deepEqual(parsePosition({ stack: "x", source: 5 }), { file: "", line: 0, function: "", index: 0, stack: [], source: [] });
  assert.equal(baseName("/a/b.py"), "b.py");
  assert.equal(baseName("<string>"), "<string>");
});
