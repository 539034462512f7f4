// The form and the file are one: what the form writes is read back, and nothing else in the file changes.
import assert from "node:assert/strict";
import { test } from "node:test";
import { pathToFileURL } from "node:url";

const yaml = await import(pathToFileURL(process.env.YAML));
const scripts = pathToFileURL(process.env.SCRIPTS + "/");
const { JobDocument } = await import(new URL("job_document.js", scripts));
const { addRole, parsePorts, readJob, removeRole, renameRole, writeJob, writeRole, writeVariable } = await import(new URL("job_fields.js", scripts));
const { MASK, fillSecrets, findSecrets, maskSecrets } = await import(new URL("job_secrets.js", scripts));

const open = (text) => new JobDocument(yaml, text);
const FILE = `# what we train
name: train   # short
image: pytorch

# sizes
resources: {cpu: 4, memory: 8Gi, gpu: 1}
env:
  PIN: 007
  VERSION: 1.10
  EMPTY: ""
command: |
  python3 train.py
  echo done
time_limit: 6h
`;

test("a file is read as it is spelled", () => {
  const job = readJob(open(FILE));
  assert.equal(job.name, "train");
  assert.deepEqual(job.env, [["PIN", "007"], ["VERSION", "1.10"], ["EMPTY", ""]]);
  const [role] = job.roles;
  assert.deepEqual([role.cpu, role.memory, role.gpu, role.image], ["4", "8Gi", "1", "pytorch"]);
  assert.equal(role.command, "python3 train.py\necho done");
});

test("a document that nobody changed is written as it was", () => {
  assert.equal(open(FILE).text, FILE.replace("train   # short", "train # short"));
});

test("comments, order and odd spellings survive every field", () => {
  const fields = { name: "other", description: "two\nlines", group: "team", tags: "a, b", time_limit: "90m", retry: "2", priority: "5", files: true, hold: true };
  for (const [field, value] of Object.entries(fields)) {
    const document = open(FILE);
    writeJob(document, field, value);
    const after = open(document.text);
    for (const kept of ["# what we train", "# sizes", "PIN: 007", "VERSION: 1.10"]) assert.ok(document.text.includes(kept), `${field}: ${kept}`);
    assert.equal(readJob(after)[field], value, field);
    assert.deepEqual({ ...readJob(after), [field]: null }, { ...readJob(open(FILE)), [field]: null }, field);
  }
});

test("what a role is given is read back, and can be taken out again", () => {
  const fields = { instances: "3", cpu: "0.5", memory: "1Gi", gpu: "2", image: "tf", command: "a: b # c\n- d", ports: "http, rpc:2", workdir: "/tmp", min_succeeded: "1" };
  for (const start of [FILE, "name: x\nroles:\n  a:\n    command: one # why\n  b: {command: two}\n", '{"name": "x", "command": "y"}']) {
    for (const [field, value] of Object.entries(fields)) {
      const document = open(start);
      const path = readJob(document).roles[0].path;
      writeRole(document, path, field, value);
      assert.equal(readJob(open(document.text)).roles[0][field], value, `${field} in ${start}`);
      const again = open(document.text);
      writeRole(again, path, field, "");
      assert.ok(["", readJob(open(start)).roles[0][field]].includes(readJob(open(again.text)).roles[0][field]));
    }
  }
});

test("any text is the same after a trip through the file", () => {
  let seed = 42;
  const random = (most) => (seed = (seed * 1103515245 + 12345) % 2 ** 31) % most;
  const letters = [..."ab #:-'\"\\|>{}[]&*!%@`,\n\t~=<?07é漢🙂", "true", "null", "- ", ": ", " #", "\n\n", "******", "---", "..."];
  for (let round = 0; round < 1500; round += 1) {
    const value = Array.from({ length: 1 + random(12) }, () => letters[random(letters.length)]).join("");
    const document = open(FILE);
    writeJob(document, "description", value);
    writeVariable(document, [], "PIN", "PIN", value);
    const after = open(document.text);
    assert.ok(after.isReadable, JSON.stringify(value));
    assert.equal(after.get(["description"]), value, JSON.stringify(value));
    assert.equal(after.get(["env", "PIN"]), value, JSON.stringify(value));
    assert.equal(after.get(["env", "VERSION"]), "1.10");
  }
});

test("texts that look like numbers are quoted; numbers and durations are bare", () => {
  const document = open("name: x\n");
  writeJob(document, "description", "123");
  writeJob(document, "priority", "7");
  writeJob(document, "time_limit", "90m");
  assert.equal(document.text, 'name: x\ndescription: "123"\ntime_limit: 90m\npriority: 7\n');
});

test("variables are added, renamed, emptied and removed", () => {
  const document = open(FILE);
  writeVariable(document, [], "", "NEW", "1");
  writeVariable(document, [], "PIN", "CODE", "007");
  writeVariable(document, [], "VERSION", "", "");
  writeVariable(document, [], "NEW", "NEW", "");
  assert.deepEqual(readJob(open(document.text)).env, [["CODE", "007"], ["EMPTY", ""], ["NEW", ""]]);
});

test("a second role takes what is of a task along, and leaves what all share", () => {
  const document = open(FILE);
  addRole(document);
  renameRole(document, "role2", "helper");
  const job = readJob(open(document.text));
  assert.deepEqual(job.roles.map((role) => role.name), ["main", "helper"]);
  assert.deepEqual([job.roles[0].gpu, job.roles[1].gpu, job.roles[1].image], ["1", "", "pytorch"]);
  assert.ok(document.text.includes("# what we train"));
  removeRole(document, "helper");
  assert.deepEqual(readJob(open(document.text)).roles.map((role) => role.name), ["main"]);
});

test("anchors lend, and what is lent is not changed through the form of another", () => {
  const document = open("name: x\nroles:\n  a: &a {command: one, env: {K: v}}\n  b: *a\n  c: {<<: *a, instances: 2}\n");
  assert.deepEqual(readJob(document).roles.map((role) => role.command), ["one", "one", "one"]);
  writeRole(document, ["roles", "b"], "command", "two");
  assert.deepEqual(readJob(open(document.text)).roles.map((role) => role.command), ["one", "two", "one"]);
});

test("only Holdfast files are editable", () => {
  assert.ok(open(FILE).isHoldfast);
  assert.ok(open("").isHoldfast);
  assert.ok(!open("protocolVersion: 2\nname: x\n").isHoldfast);
  assert.ok(!open('{"jobName": "x", "taskRoles": []}').isHoldfast);
  assert.ok(!open("displayName: x\ninstanceType: small\n").isHoldfast);
  assert.ok(!open("name: [").isReadable);
  assert.ok(!open("- a\n- b\n").isReadable);
});

test("JSON stays JSON", () => {
  const document = open('{"name": "x", "command": "y", "retry": 1}');
  writeJob(document, "retry", "3");
  writeJob(document, "description", "7");
  assert.deepEqual(JSON.parse(document.text), { name: "x", description: "7", command: "y", retry: 3 });
});

test("files that repeat themselves without end, or are long, are left to the editor", () => {
  const bomb = ["a: &a [x, x, x, x, x, x, x, x, x, x]", ..."bcdefgh"].map((line, i) => (i ? `${line}: &${line} [${Array(10).fill(`*${"abcdefgh"[i - 1]}`).join(", ")}]` : line)).join("\n");
  assert.ok(!open(bomb).isReadable);
  assert.ok(open(`name: ${"x".repeat(300_000)}`).isTooLong);
});

test("hold is written in its shortest form", () => {
  const document = open("name: x\n");
  writeJob(document, "hold", true);
  assert.ok(document.text.includes("hold: true"));
  writeJob(document, "hold_for", "2h");
  assert.ok(document.text.includes("hold: 2h"));
  writeJob(document, "hold_keep", "files");
  assert.ok(document.text.includes("hold: {for: 2h, keep: files}"));
  writeJob(document, "hold", false);
  assert.equal(document.text, "name: x\n");
});

test("ports are labels, or labels with counts", () => {
  assert.deepEqual(parsePorts("http, rpc"), ["http", "rpc"]);
  assert.deepEqual(parsePorts("http, rpc:2"), { http: "1", rpc: "2" });
  assert.equal(parsePorts(" "), undefined);
});

const SECRET = "name: x\nsecrets:\n  KEY: hunter2 # mine\n  DEEP: {A: 1, B: [two]}\n  LONG: |\n    line\n    more\ncommand: y\n";

test("secrets are hidden in place, of whatever shape, and filled in again on their lines", () => {
  const hidden = maskSecrets(yaml, SECRET);
  for (const value of ["hunter2", "two", "line", "more"]) assert.ok(!hidden.includes(value), value);
  assert.ok(hidden.includes("# mine") && hidden.endsWith("command: y\n"));
  const values = new Map([["KEY", "new \"one\"\nof two lines"], ["DEEP.B.0", "b"]]);
  const filled = fillSecrets(yaml, hidden, values);
  assert.equal(filled.split("\n").length, hidden.split("\n").length);
  const found = Object.fromEntries(findSecrets(yaml, filled).map((secret) => [secret.name, secret.value]));
  assert.deepEqual(found, { KEY: 'new "one"\nof two lines', "DEEP.A": MASK, "DEEP.B.0": "b", LONG: MASK });
});

test("secrets in JSON, and in a file that cannot be read", () => {
  assert.equal(maskSecrets(yaml, '{"name": "x", "secrets": {"K": "v"}}'), `{"name": "x", "secrets": {"K": "${MASK}"}}`);
  assert.equal(maskSecrets(yaml, "secrets: {K: [v"), null);
});

test("renaming to an existing name replaces it", () => {
  const document = open(FILE);
  writeVariable(document, [], "PIN", "VERSION", "2");
  assert.deepEqual(readJob(open(document.text)).env, [["VERSION", "2"], ["EMPTY", ""]]);
});

test("a script of sbatch is recognised, and is no document", () => {
  for (const text of ["#!/bin/bash\n#SBATCH --time=1\ntrue\n", "#!/bin/sh -l\r\n# why\r\n\r\n#SBATCH -n 1\r\n"]) {
    const script = open(text);
    assert.deepEqual([script.isScript, script.isReadable, script.isHoldfast], [true, false, false]);
  }
  for (const text of [FILE, "#!/bin/bash\ntrue\n#SBATCH --time=1\n", "# a\r\n".repeat(50)]) assert.equal(open(text).isScript, false);
});
