import assert from "node:assert/strict";
import { test } from "node:test";
import { nameIn, withName } from "../../../src/holdfast/server/portal/static/js/job_name.js";

test("the name is read however it is quoted", () => {
  assert.equal(nameIn("name: hello\ncommand: env\n"), "hello");
  assert.equal(nameIn("# first\nname:   two words  \n"), "two words");
  assert.equal(nameIn('name: "a \\"b\\""\n'), 'a "b"');
  assert.equal(nameIn("name: 'it''s'\n"), "it's");
  assert.equal(nameIn("name:\n"), "");
});

test("what does not simply give one is left alone", () => {
  for (const text of ["", "{}", '{"name": "x"}', "env:\n  name: inner\n", "name: |\n  x\n", "name: &a x\n", 'name: "broken\n', "name: x # why\n"]) {
    assert.equal(nameIn(text), null, text);
  }
});

test("another name changes that line alone, and reads back", () => {
  const text = "# keep\nname: old\ncommand: |\n  name: not this\n";
  assert.equal(withName(text, "new-name"), "# keep\nname: new-name\ncommand: |\n  name: not this\n");
  for (const name of ["", "yes", "3", "a: b", "#x", "$&", 'say "hi"', "日本", "tab\there", "null"]) {
    assert.equal(nameIn(withName(text, name)), name);
  }
});
