import assert from "node:assert/strict";
import { test } from "node:test";
import { readName, writeName } from "../../../src/holdfast/server/portal/static/js/job_name.js";

test("the name is read however it is quoted", () => {
  assert.equal(readName("name: hello\ncommand: env\n"), "hello");
  assert.equal(readName("# first\nname:   two words  \n"), "two words");
  assert.equal(readName('name: "a \\"b\\""\n'), 'a "b"');
  assert.equal(readName("name: 'it''s'\n"), "it's");
  assert.equal(readName("name:\n"), "");
});

test("a name that is not a simple scalar is ignored", () => {
  for (const text of ["", "{}", '{"name": "x"}', "env:\n  name: inner\n", "name: |\n  x\n", "name: &a x\n", 'name: "broken\n', "name: x # why\n"]) {
    assert.equal(readName(text), null, text);
  }
});

test("writing a name changes only its line", () => {
  const text = "# keep\nname: old\ncommand: |\n  name: not this\n";
  assert.equal(writeName(text, "new-name"), "# keep\nname: new-name\ncommand: |\n  name: not this\n");
  for (const name of ["", "yes", "3", "a: b", "#x", "$&", 'say "hi"', "日本", "tab\there", "null"]) {
    assert.equal(readName(writeName(text, name)), name);
  }
});
